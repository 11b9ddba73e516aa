//! What keeps a text from being read as YAML, in hoist's words. The library's are about its options and
//! the types behind it, which nobody sees who writes a file.

use serde_saphyr::Error;
use serde_saphyr::granit_parser::ErrorKind;
use serde_saphyr::localizer::ExternalMessageSource;

/// Line and column, from 1, where they are known, and what is wrong there.
pub(super) fn told(error: &Error) -> (Option<(u64, u64)>, String) {
    let bare = error.without_snippet();
    let place = bare.location().map(|place| (place.line(), place.column()));
    (place, wording(bare))
}

fn wording(error: &Error) -> String {
    let known = match error {
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(scan) => syntax(scan.kind()),
            _ => NOT_YAML,
        },
        Error::AliasError { error, .. } => return wording(error),
        Error::DuplicateMappingKey { key: Some(key), .. } => return format!("{key:?} stands there twice"),
        Error::DuplicateMappingKey { key: None, .. } => "a name stands there twice",
        Error::Eof { .. } => "holds nothing",
        Error::MultipleDocuments { .. } => "holds more than one document: leave one, without `---` after it",
        Error::UnknownAnchor { .. } => {
            "an alias (`*name`) stands before its anchor (`&name`), or there is none"
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "an alias (`*name`) is part of what it stands for"
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => "is nested or repeated by aliases (`*name`) too often for a configuration",
        Error::MergeValueNotMapOrSeqOfMaps { .. } | Error::MergeKeyNotAllowed { .. } => {
            "`<<` takes an alias of a mapping, or a list of them"
        }
        Error::InvalidBinaryBase64 { .. }
        | Error::BinaryNotUtf8 { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::UnsupportedTag { .. }
        | Error::TaggedEnumMismatch { .. }
        | Error::TaggedStructFieldName { .. } => "a tag (`!name`) means nothing here: leave it out",
        Error::InvalidUtf8Input => "is not text in UTF-8",
        Error::NonFiniteFloat { .. } => "a number must be finite: quote it if it is meant as text",
        Error::FoldedBlockScalarMustIndentContent { .. } | Error::IndentationError { .. } => INDENTATION,
        Error::NullIntoString { .. } => "has no value where text is meant: give one, or leave the field out",
        Error::Unexpected { .. } | Error::InvalidScalar { .. } | Error::SerdeInvalidType { .. } => {
            "is of another type than what is meant here"
        }
        Error::ContainerEndMismatch { .. }
        | Error::UnexpectedSequenceEnd { .. }
        | Error::UnexpectedMappingEnd { .. } => OPEN,
        _ => NOT_YAML,
    };
    known.to_owned()
}

const NOT_YAML: &str = "can't be read as YAML here";
const INDENTATION: &str = "the line is not indented as its neighbours are";
const OPEN: &str = "a list (`[`) or mapping (`{`) is not closed, or lacks a comma";
const TAB: &str = "a tab stands where YAML takes spaces alone";
const ESCAPE: &str =
    "a `\\` in double quotes begins no escape that YAML knows: write `\\\\`, or take single quotes";
const TAG: &str = "a tag (`!name`) or directive (`%`) means nothing here: leave it out, or quote the text";
const BLOCK: &str = "what follows `|` or `>` is not indented, or the sign has something behind it";

fn syntax(kind: &ErrorKind) -> &'static str {
    use ErrorKind as Kind;
    match kind {
        Kind::UnexpectedEofFlowSequence
        | Kind::UnexpectedEofFlowMapping
        | Kind::UnexpectedEofImplicitFlowMapping
        | Kind::ExpectedFlowMappingSeparator
        | Kind::ExpectedFlowSequenceSeparator
        | Kind::MisplacedFlowCollectionEnd
        | Kind::MismatchedFlowCollectionEnd { .. }
        | Kind::UnclosedFlowCollection { .. }
        | Kind::BlockEntryInFlowCollection
        | Kind::PlainScalarStartsWithDashFlowIndicator
        | Kind::FlowMappingValueAdjacentCollection => OPEN,
        Kind::UnexpectedEofBlockSequence
        | Kind::UnexpectedEofBlockMapping
        | Kind::ExpectedBlockMappingKey
        | Kind::ExpectedBlockSequenceEntry
        | Kind::InvalidIndentation
        | Kind::InvalidQuotedScalarIndent
        | Kind::InvalidFlowScalarIndent
        | Kind::BlockSequenceEntryNotAllowed
        | Kind::InvalidBlockEntryWhitespace => INDENTATION,
        Kind::SimpleKeyExpected
        | Kind::InvalidSimpleKey
        | Kind::MappingKeyNotAllowed
        | Kind::MappingValueNotAllowed
        | Kind::InvalidMappingValueWhitespace
        | Kind::InvalidColonPlacement => {
            "a name and its value (`name: value`) can't stand here: quote text that holds `: `, and indent as above"
        }
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabAtBlockScalarStart
        | Kind::TabInIndentation
        | Kind::TabInPlainScalar => TAB,
        Kind::UnclosedQuotedScalar
        | Kind::DocumentIndicatorInQuotedScalar
        | Kind::InvalidTrailingSingleQuotedScalar
        | Kind::InvalidTrailingDoubleQuotedScalar => "a quote is not closed, or something follows it",
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::InvalidLowSurrogate
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate
        | Kind::InvalidUnicodeEscape => ESCAPE,
        Kind::ZeroBlockScalarIndent | Kind::InvalidBlockScalarHeader | Kind::InvalidBlockScalarIndent => {
            BLOCK
        }
        Kind::UnknownAnchor | Kind::MissingAnchorOrAliasName => {
            "`&` begins an anchor and `*` an alias, which has to follow its anchor: quote text that begins so"
        }
        Kind::DuplicateVersionDirective
        | Kind::UnsupportedYamlMajorVersion
        | Kind::DuplicateTagDirective
        | Kind::MissingDocumentEndBeforeDirective
        | Kind::UndeclaredTagHandle
        | Kind::ExpectedTagBang
        | Kind::ExpectedTagDirectiveBang
        | Kind::InvalidGlobalTagCharacter
        | Kind::InvalidDirectiveTerminator
        | Kind::DirectiveDisallowed
        | Kind::MissingYamlVersionSeparator
        | Kind::MissingDirectiveName
        | Kind::InvalidDirectiveName
        | Kind::YamlVersionTooLong
        | Kind::MissingYamlVersion
        | Kind::InvalidTagDirectiveTerminator
        | Kind::InvalidTagTerminator
        | Kind::MissingTagUri
        | Kind::UnclosedVerbatimTag
        | Kind::InvalidTagEscape => TAG,
        Kind::ExpectedDocumentStart
        | Kind::InvalidDocumentEnd
        | Kind::UnexpectedEndOfPlainScalar
        | Kind::MultipleDocumentsUnsupported => "something follows where the document has ended",
        Kind::UnexpectedCharacter { .. } => "a character stands here that YAML takes in quotes alone",
        Kind::CommentNotSeparated | Kind::CommentInterceptedScalar | Kind::ExpectedWhitespace => {
            "a space is missing, such as before `#`, or text goes on behind a comment"
        }
        Kind::RecursionLimitExceeded => "is nested too deeply for a configuration",
        _ => NOT_YAML,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn of(text: &str) -> (Option<(u64, u64)>, String) {
        match serde_saphyr::from_str::<Value>(text) {
            Ok(value) => (None, format!("taken: {value}")),
            Err(error) => told(&error),
        }
    }

    #[test]
    fn what_people_mistype_has_a_place_and_a_remedy() {
        let mut wrong = Vec::new();
        for (text, wanted) in [
            ("a: [1, 2\n", OPEN),
            ("a: {b: 1\n", OPEN),
            ("a: [1}\n", OPEN),
            ("a:\n  b: 1\n c: 2\n", INDENTATION),
            ("a: b: c\n", "a name and its value"),
            ("a:\n\t- b\n", TAB),
            ("a: 'b\n", "a quote is not closed"),
            ("a: \"\\q\"\n", ESCAPE),
            ("a: *b\n", "an alias (`*name`)"),
            ("a: 1\na: 2\n", "\"a\" stands there twice"),
            ("a: @b\n", "a character stands here"),
            ("a: |x\n  b\n", BLOCK),
            ("a: 1\n---\nb: 2\n", "more than one document"),
            ("%YAML 9.0\n---\na: 1\n", TAG),
            ("a: &b {<<: 1}\n", "`<<` takes"),
        ] {
            let (place, told) = of(text);
            if place.is_none() || !told.contains(wanted) {
                wrong.push(format!("{text:?}: {told}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
