//! The XML that services answer: elements with text, as a small tree. Pure.
//!
//! Not a parser for every document: attributes and comments are passed over, and what services do not write is refused.

/// The deepest nesting that is accepted.
const DEEPEST: usize = 16;

/// An element with what is in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct XmlElement {
    /// The name without its prefix.
    pub name: String,
    /// The text, of all its parts together.
    pub text: String,
    /// The elements in it, in their order.
    pub children: Vec<XmlElement>,
}

impl XmlElement {
    /// Reads a document; `None` if it is not one.
    pub fn read(text: &str) -> Option<XmlElement> {
        let mut open = vec![XmlElement::default()];
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            let (before, markup) = rest.split_at(at);
            open.last_mut()?.text.push_str(&unescaped(before)?);
            rest = if let Some(comment) = markup.strip_prefix("<!--") {
                comment.split_once("-->")?.1
            } else if let Some(instruction) = markup.strip_prefix("<?") {
                instruction.split_once("?>")?.1
            } else if let Some(end) = markup.strip_prefix("</") {
                let (name, rest) = end.split_once('>')?;
                let closed = open.pop()?;
                if closed.name != local(name) {
                    return None;
                }
                open.last_mut()?.children.push(closed);
                rest
            } else {
                // A declaration of entities would be one that begins with `<!`.
                let (tag, rest) = markup.strip_prefix('<')?.split_once('>')?;
                let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
                let element = XmlElement { name: local(tag).to_owned(), ..XmlElement::default() };
                if element.name.is_empty() || tag.starts_with('!') || open.len() > DEEPEST {
                    return None;
                }
                if is_empty {
                    open.last_mut()?.children.push(element)
                } else {
                    open.push(element)
                }
                rest
            };
        }
        let document = open.pop()?;
        let is_one = open.is_empty() && document.children.len() == 1 && rest.trim().is_empty();
        is_one.then(|| document.children.into_iter().next()).flatten()
    }

    /// Returns the first element of this name in it.
    pub fn child(&self, name: &str) -> Option<&XmlElement> {
        self.children.iter().find(|child| child.name == name)
    }

    /// Returns the element at the end of these names.
    pub fn at(&self, path: &[&str]) -> Option<&XmlElement> {
        path.iter().try_fold(self, |element, name| element.child(name))
    }

    /// Returns the first element of this name at any depth.
    pub fn find(&self, name: &str) -> Option<&XmlElement> {
        if self.name == name {
            return Some(self);
        }
        self.children.iter().find_map(|child| child.find(name))
    }

    /// Returns the text of the element of this name in it, without the space around it.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim())
    }
}

/// Returns the name in a tag, without prefix and attributes.
fn local(tag: &str) -> &str {
    let name = tag.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

/// Returns a text with its entities replaced; `None` if there is one that is not known.
fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        let (name, behind) = entity.split_once(';')?;
        plain.push_str(before);
        plain.push(match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => {
                let number = name.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)?
            }
        });
        rest = behind;
    }
    plain.push_str(rest);
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_tree() {
        let text = "<?xml version=\"1.0\"?>\n<ErrorResponse xmlns=\"http://sns\"><!-- x -->\n <Error><Type>Sender</Type>\
                    <Code>a:NotFound</Code><Message>a &lt;b&gt; &amp; &#39;c&#x27;</Message><Detail/></Error></ErrorResponse>\n";
        let read = XmlElement::read(text).unwrap();
        let error = read.at(&["Error"]).unwrap();
        assert_eq!((read.name.as_str(), error.text_of("Code")), ("ErrorResponse", Some("a:NotFound")));
        assert_eq!(error.text_of("Message"), Some("a <b> & 'c'"));
        assert_eq!(read.find("Code"), error.child("Code"));
        assert_eq!((error.text_of("Detail"), error.text_of("None")), (Some(""), None));
        assert_eq!(XmlElement::read("<a:b><a:c>1</a:c></a:b>").unwrap().text_of("c"), Some("1"));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = format!("{}{}", "<a>".repeat(17), "</a>".repeat(17));
        for text in [
            "",
            "x",
            "<a>",
            "<a></b>",
            "</a>",
            "<a/><b/>",
            "<a>&x;</a>",
            "<a>&lt</a>",
            "<!DOCTYPE a><a/>",
            "<a",
            "<>x</>",
            &deep,
        ] {
            assert_eq!(XmlElement::read(text), None, "{text}");
        }
        XmlElement::read(&format!("{}{}", "<a>".repeat(16), "</a>".repeat(16))).unwrap();
    }
}
