//! The fenced blocks of a page, and what a comment before one says of it.

/// One block.
#[derive(Debug)]
pub struct Block {
    /// The word behind the fence.
    pub kind: String,
    /// Its content, without the indentation of the fence.
    pub text: String,
    /// The line of the fence, from 1.
    pub line: usize,
    /// What the comment before it says.
    pub remark: Option<Remark>,
}

/// What a comment says of the block behind it.
#[derive(Debug, PartialEq, Eq)]
pub enum Remark {
    /// `<!-- not run: REASON -->`
    NotRun(String),
    /// `<!-- beside it: YAML -->`: what a part of a configuration needs to be a whole one.
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
    /// The file that the block is meant to be: its first line is `# NAME`.
    pub fn file(&self) -> Option<&str> {
        self.text.lines().next()?.strip_prefix("# ").filter(|name| name.ends_with(".yaml"))
    }

    /// Whether it is to be run.
    pub fn is_to_be_run(&self) -> bool {
        self.kind == "sh" && !matches!(self.remark, Some(Remark::NotRun(_)))
    }
}

/// All blocks of a page, in their order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut open, mut before, mut indent) = (false, "", 0);
    for (number, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), open) {
            (Some(kind), false) => {
                indent = line.len() - line.trim_start().len();
                let (kind, line) = (kind.trim().to_owned(), number + 1);
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
