//! From YAML text to a [`Node`], within the bounds of [`super`].

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::{
    Content, DEPTH_MAX, DOCUMENT_BYTES_MAX, Entry, NODES_MAX, Node, Position, SCALAR_BYTES_MAX, Scalar,
    TEXT_BYTES_MAX,
};

/// Why a text is no document: where, what is wrong, what to do.
#[derive(Debug)]
pub(crate) struct UnreadableDocument {
    pub(crate) at: Position,
    pub(crate) what: String,
    pub(crate) fix: String,
}

impl UnreadableDocument {
    fn new(at: Position, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { at, what: what.into(), fix: fix.into() }
    }

    fn yaml(error: &ScanError, text: &str) -> Self {
        let info = error.info();
        let line = text.lines().nth(error.marker().line().saturating_sub(1)).unwrap_or_default();
        let fix = if has_bare_variable(line) {
            "put each ${NAME} between braces in quotes: \"${NAME}\""
        } else if info.contains("tab") {
            "indent with spaces"
        } else if info.contains("anchor") {
            "define it as &name before it is used as *name"
        } else if info.contains("block scalar") || info.contains("quote") {
            "close the quotes, and double a single quote inside single quotes"
        } else {
            "check the indentation and the brackets, and quote values that contain `: `, ` #` or braces"
        };
        Self::new(position(error.marker()), format!("not valid YAML: {info}"), fix)
    }
}

/// Whether `${` stands where no quote is open, so that YAML reads a mapping there.
fn has_bare_variable(line: &str) -> bool {
    let (mut in_double, mut in_single) = (false, false);
    line.char_indices().any(|(at, character)| {
        match character {
            '"' => in_double = !in_double,
            '\'' => in_single = !in_single,
            _ => {}
        }
        character == '$' && line[at..].starts_with("${") && !in_double && !in_single
    })
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

/// The problem of a text without any document.
pub(crate) const EMPTY: &str = "the file is empty";

/// The one document in `text`.
pub(crate) fn read(text: &str) -> Result<Node, UnreadableDocument> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(UnreadableDocument::new(
            Position::START,
            format!("the file has {} bytes, more than the {DOCUMENT_BYTES_MAX} allowed", text.len()),
            "use fewer overrides here, and set the others at run time",
        ));
    }
    let mut build = TreeBuilder::default();
    let mut documents = 0;
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| UnreadableDocument::yaml(&error, text))?;
        let at = position(&span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(UnreadableDocument::new(
                        at,
                        "a second YAML document starts here",
                        "keep one document in the file and remove the line with `---`",
                    ));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let (quoted, tag) = tag_of(tag.as_deref(), style != ScalarStyle::Plain);
                let scalar = Scalar { text: text.into(), quoted };
                build.scalar(Node { at, content: Content::Scalar(scalar), tag }, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                build.open(at, Content::Sequence(Vec::new()), anchor, tag.as_deref())?;
            }
            Event::MappingStart(anchor, tag) => {
                build.open(at, Content::Mapping(Vec::new()), anchor, tag.as_deref())?;
            }
            Event::SequenceEnd | Event::MappingEnd => build.close(at)?,
            Event::Alias(anchor) => build.alias(at, anchor)?,
        }
    }
    match build.root {
        Some(Node { content: Content::Scalar(scalar), .. }) if scalar.is_null() => Err(empty()),
        Some(root) => Ok(root),
        None => Err(empty()),
    }
}

fn empty() -> UnreadableDocument {
    UnreadableDocument::new(
        Position::START,
        EMPTY,
        "start with `namespaces:`, or run `tidegate serve` without a config for a built-in example",
    )
}

/// Whether a value is certainly text, and the tag if it is not one that says just that.
fn tag_of(tag: Option<&Tag>, quoted: bool) -> (bool, Option<Box<str>>) {
    match tag {
        None => (quoted, None),
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => (true, None),
        // `!` alone says that the value is not to be interpreted.
        Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => (true, None),
        Some(tag) => (quoted, Some(tag.to_string().into())),
    }
}

/// A list or mapping that has not ended yet.
struct OpenCollection {
    node: Node,
    anchor: usize,
    /// The key that waits for its value.
    key: Option<(Box<str>, Position)>,
    /// The deepest nesting under it so far.
    height: usize,
}

/// A complete value that an alias may repeat.
struct AnchoredValue {
    node: Node,
    height: usize,
    nodes: usize,
    bytes: usize,
}

#[derive(Default)]
struct TreeBuilder {
    root: Option<Node>,
    stack: Vec<OpenCollection>,
    /// The counts at the start of each anchored list or mapping.
    counts: Vec<(usize, usize)>,
    anchors: BTreeMap<usize, AnchoredValue>,
    nodes: usize,
    bytes: usize,
}

impl TreeBuilder {
    fn count(&mut self, at: Position, nodes: usize, bytes: usize) -> Result<(), UnreadableDocument> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.nodes > NODES_MAX || self.bytes > TEXT_BYTES_MAX {
            return Err(UnreadableDocument::new(
                at,
                format!(
                    "the file has more than {NODES_MAX} values or {TEXT_BYTES_MAX} bytes once aliases are replaced"
                ),
                "use fewer aliases and overrides",
            ));
        }
        Ok(())
    }

    fn scalar(&mut self, node: Node, anchor: usize) -> Result<(), UnreadableDocument> {
        let Content::Scalar(scalar) = &node.content else { return Ok(()) };
        let bytes = scalar.text.len();
        if bytes > SCALAR_BYTES_MAX {
            return Err(UnreadableDocument::new(
                node.at,
                format!("a value of {bytes} bytes, more than the {SCALAR_BYTES_MAX} allowed"),
                "shorten it, or close the quotes if they were left open",
            ));
        }
        self.count(node.at, 1, bytes)?;
        if anchor > 0 {
            self.anchors.insert(anchor, AnchoredValue { node: node.clone(), height: 0, nodes: 1, bytes });
        }
        self.add(node, 0)
    }

    fn open(
        &mut self,
        at: Position,
        content: Content,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), UnreadableDocument> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.counts.push((self.nodes, self.bytes));
        self.count(at, 1, 0)?;
        let (_, tag) = tag_of(tag, false);
        self.stack.push(OpenCollection { node: Node { at, content, tag }, anchor, key: None, height: 0 });
        Ok(())
    }

    fn close(&mut self, at: Position) -> Result<(), UnreadableDocument> {
        let (Some(open), Some((nodes, bytes))) = (self.stack.pop(), self.counts.pop()) else {
            return Err(UnreadableDocument::new(
                at,
                "not valid YAML: an end without a start",
                "check the brackets",
            ));
        };
        let height = open.height + 1;
        if open.anchor > 0 {
            let (nodes, bytes) = (self.nodes - nodes, self.bytes - bytes);
            // The copy is counted: it takes memory whether or not an alias ever repeats it.
            self.count(at, nodes, bytes)?;
            self.anchors.insert(open.anchor, AnchoredValue { node: open.node.clone(), height, nodes, bytes });
        }
        self.add(open.node, height)
    }

    fn alias(&mut self, at: Position, anchor: usize) -> Result<(), UnreadableDocument> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(UnreadableDocument::new(
                at,
                "an alias inside the value it stands for",
                "write the value out",
            ));
        };
        let (height, nodes, bytes) = (anchored.height, anchored.nodes, anchored.bytes);
        if self.stack.len() + height > DEPTH_MAX {
            return Err(too_deep(at));
        }
        self.count(at, nodes, bytes)?;
        let node = self.anchors.get(&anchor).map(|anchored| anchored.node.clone());
        // Looked up again because counting borrows the whole.
        node.map_or(Ok(()), |node| self.add(node, height))
    }

    /// Puts a complete value where it belongs: the document, a list, or a mapping as key or value.
    fn add(&mut self, node: Node, height: usize) -> Result<(), UnreadableDocument> {
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.height = open.height.max(height);
        match &mut open.node.content {
            Content::Sequence(items) => items.push(node),
            Content::Mapping(entries) => match open.key.take() {
                Some((key, key_at)) => entries.push(Entry { key, key_at, value: node }),
                None => match node.content {
                    Content::Scalar(scalar) => open.key = Some((scalar.text, node.at)),
                    Content::Sequence(_) | Content::Mapping(_) => {
                        return Err(UnreadableDocument::new(
                            node.at,
                            "a key that is a list or a mapping",
                            "use a plain word as key, and quote values that start with a bracket or a brace",
                        ));
                    }
                },
            },
            Content::Scalar(_) => {}
        }
        Ok(())
    }
}

fn too_deep(at: Position) -> UnreadableDocument {
    UnreadableDocument::new(
        at,
        format!("lists and mappings are nested more than {DEPTH_MAX} deep"),
        "no setting is that deep; check the brackets",
    )
}
