//! The fenced blocks of a page, and the comments before them.

#[derive(Debug)]
pub struct Block {
    /// The word after the fence.
    pub kind: String,
    /// The content, without the indentation of the fence.
    pub text: String,
    /// The line of the fence, from 1.
    pub line: usize,
    /// The comment before the block.
    pub remark: Option<Remark>,
}

/// A comment about the following block.
#[derive(Debug, PartialEq, Eq)]
pub enum Remark {
    /// `<!-- not run: REASON -->`: the block is not run.
    NotRun(String),
    /// `<!-- beside it: YAML -->`: the text that completes a part of a configuration.
    Beside(String),
    /// `<!-- cases -->`: the block is a file of cases, which the page's commands run.
    Cases,
}

impl Remark {
    fn of(line: &str) -> Option<Remark> {
        let text = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        if text == "cases" {
            return Some(Remark::Cases);
        }
        let not_run = text.strip_prefix("not run: ").map(|reason| Remark::NotRun(reason.to_owned()));
        not_run.or_else(|| text.strip_prefix("beside it: ").map(|yaml| Remark::Beside(yaml.to_owned())))
    }
}

impl Block {
    /// The name of the file for this block: its first line is `# NAME`.
    pub fn file(&self) -> Option<&str> {
        self.text.lines().next()?.strip_prefix("# ").filter(|name| name.ends_with(".yaml"))
    }

    pub fn is_to_be_run(&self) -> bool {
        self.kind == "sh" && !matches!(self.remark, Some(Remark::NotRun(_)))
    }
}

pub fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    let mut before = "";
    let mut indent = 0;
    for (number, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(kind), false) => {
                indent = line.len() - line.trim_start().len();
                let kind = kind.trim().to_owned();
                let line = number + 1;
                found.push(Block { kind, text: String::new(), line, remark: Remark::of(before) });
                open = true;
            }
            (Some(_), true) => open = false,
            (None, true) => {
                let block = found.last_mut().expect("one is open");
                block.text.push_str(line.get(indent..).unwrap_or_default());
                block.text.push('\n');
            }
            (None, false) => {}
        }
        before = line;
    }
    assert!(!open, "a block has no end: {:?}", found.last());
    found
}

#[test]
fn a_block_has_its_kind_its_remark_and_no_indentation() {
    let page =
        "text\n\n  <!-- not run: too long -->\n  ```sh\n  make\n    test\n  ```\n\n```yaml\n# a.yaml\nx: 1\n```\n";
    let all = blocks(page);
    assert_eq!((all[0].kind.as_str(), all[0].text.as_str(), all[0].line), ("sh", "make\n  test\n", 4));
    assert_eq!(all[0].remark, Some(Remark::NotRun("too long".to_owned())));
    assert!(!all[0].is_to_be_run());
    assert_eq!((all[1].file(), &all[1].remark), (Some("a.yaml"), &None));
}
