//! Text of unknown length is clipped here, in one way.

/// `text`, or as much of its start as `max_bytes` holds and then how long it was in all.
///
/// The cut falls between characters, never within one.
#[must_use]
pub fn clip(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let kept = &text[..text.floor_char_boundary(max_bytes)];
    format!("{kept}… ({} bytes in all)", text.len())
}

#[cfg(test)]
mod tests {
    use super::clip;

    #[test]
    fn text_that_fits_is_untouched() {
        assert_eq!(clip("", 4), "");
        assert_eq!(clip("abcd", 4), "abcd");
    }

    #[test]
    fn the_cut_falls_between_characters() {
        assert_eq!(clip("abcde", 4), "abcd… (5 bytes in all)");
        // 'ß' takes bytes 3 and 4, so only the first three fit whole.
        assert_eq!(clip("abcßd", 4), "abc… (6 bytes in all)");
        assert_eq!(clip("🦀🦀", 3), "… (8 bytes in all)");
    }
}
