//! Addresses of resources, as Terraform writes them: `module.a["key"].kubernetes_deployment.web[0]`.

/// The address with every key in quotes replaced by `*`. Keys of `for_each` may be values that were read
/// from somewhere, so they are for approvers alone.
#[must_use]
pub fn without_keys(address: &str) -> String {
    let mut shown = String::with_capacity(address.len());
    let mut rest = address;
    while let Some(open) = rest.find("[\"") {
        shown.push_str(&rest[..open]);
        shown.push_str("[*]");
        let Some(length) = quoted(&rest[open + 2..]) else {
            return shown; // never closed: nothing after it can be told from the key
        };
        rest = &rest[open + 2 + length..];
        rest = rest.strip_prefix(']').unwrap_or(rest);
    }
    shown.push_str(rest);
    shown
}

/// The names of the calls that lead to a module: `module.a["x"].module.b` is `a`, `b`. `None` when it is no
/// address of a module.
pub(super) fn calls(module_address: &str) -> Option<Vec<String>> {
    let plain = without_keys(module_address);
    let mut parts = plain.split('.');
    let mut names = Vec::new();
    while let Some(word) = parts.next() {
        let name = parts.next()?;
        let name = name.split('[').next().unwrap_or(name);
        if word != "module" || name.is_empty() {
            return None;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

/// How far it is past the closing quote.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(index + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_quotes_are_left_out_and_numbers_stay() {
        for (address, shown) in [
            ("terraform_data.a", "terraform_data.a"),
            ("terraform_data.a[3]", "terraform_data.a[3]"),
            (r#"terraform_data.a["hunter2"]"#, "terraform_data.a[*]"),
            (
                r#"module.m["a\"].b[\""].terraform_data.a["]"]"#,
                "module.m[*].terraform_data.a[*]",
            ),
            (
                r#"module.m["a\\"].terraform_data.a[0]"#,
                "module.m[*].terraform_data.a[0]",
            ),
            (r#"terraform_data.a["hunter2"#, "terraform_data.a[*]"),
        ] {
            assert_eq!(without_keys(address), shown, "{address}");
        }
    }

    #[test]
    fn the_calls_of_a_module_are_found_behind_its_keys() {
        assert_eq!(calls(r#"module.a["x.y"].module.b[0]"#).unwrap(), ["a", "b"]);
        assert_eq!(calls("module.a").unwrap(), ["a"]);
        for bad in ["", "module", "module.", "data.a", "module.a.b"] {
            assert_eq!(calls(bad), None, "{bad}");
        }
    }
}
