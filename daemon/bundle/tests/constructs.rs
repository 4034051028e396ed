//! Every construct that is refused, in both syntaxes, by file, line and word; and what must not be.

#![cfg(test)]

use sandbox_bundle::{Bundle, File, Limits, Rules, SourceFault};

fn bundle(files: &[(&str, &[u8])]) -> Bundle {
    let files = files.iter().map(|(path, bytes)| File {
        path: path.parse().unwrap(),
        bytes: bytes.to_vec(),
    });
    Bundle::new(files.collect(), &Limits::default()).unwrap()
}

fn check(files: &[(&str, &[u8])]) -> Result<(), Vec<SourceFault>> {
    let providers = ["registry.example/hashicorp/kubernetes", "hashicorp/random"];
    bundle(files).check(&Rules {
        providers: providers.iter().map(|p| p.parse().unwrap()).collect(),
        ..Rules::default()
    })
}

/// Where each fault of one file is, and all that is said about it.
fn faults(path: &str, text: &str) -> Vec<(u32, String)> {
    let faults = check(&[(path, text.as_bytes())]).err().unwrap_or_default();
    faults
        .into_iter()
        .map(|fault| {
            assert_eq!(fault.file.as_str(), path);
            let said = fault.to_string();
            assert!(
                said.starts_with(&format!("{path}:{}: ", fault.line)),
                "{said}"
            );
            assert!(said.ends_with('.') || said.ends_with('`'), "{said}");
            (fault.line, said)
        })
        .collect()
}

#[track_caller]
fn refused(path: &str, text: &str, line: u32, word: &str) {
    let found = faults(path, text);
    assert!(
        found
            .iter()
            .any(|(at, said)| *at == line && said.contains(word)),
        "{path}\n{text}\nwanted {word:?} in line {line}, got {found:#?}"
    );
}

/// One construct: what its fault says, then line and text in native syntax, then in JSON.
type Case = (&'static str, u32, &'static str, u32, &'static str);

#[track_caller]
fn all_refused(cases: &[Case]) {
    for (word, native_line, native, json_line, json) in cases {
        refused("main.tf", native, *native_line, word);
        refused("main.tf.json", json, *json_line, word);
        // The same in a module, called or not.
        refused("modules/m/main.tf", native, *native_line, word);
        refused("modules/m/main.tf.json", json, *json_line, word);
    }
}

#[test]
fn commands_are_refused_wherever_they_can_stand() {
    all_refused(&[
        (
            "a provisioner",
            2,
            "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"id\"\n  }\n}\n",
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"provisioner\": {\"local-exec\": {\"command\": \"id\"}}}}}}",
        ),
        (
            "a provisioner",
            3,
            "resource \"terraform_data\" \"a\" {\n  input = 1\n  provisioner remote-exec {}\n}\n",
            3,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"input\": 1,\n\n\"provisioner\": [{\"remote-exec\": [{}]}]}}}}",
        ),
        (
            "a connection",
            2,
            "resource \"terraform_data\" \"a\" {\n  connection {\n    host = \"h\"\n  }\n}\n",
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"connection\": {\"host\": \"h\"}}}}}",
        ),
        (
            "a provisioner",
            6,
            "removed {\n  from = terraform_data.a\n  lifecycle {\n    destroy = true\n  }\n  provisioner \"local-exec\" {\n    when    = destroy\n    command = \"id\"\n  }\n}\n",
            3,
            "{\"removed\": {\n\"from\": \"terraform_data.a\",\n\"provisioner\": {\"local-exec\": {\"when\": \"destroy\"}}}}",
        ),
        (
            "a connection",
            3,
            "removed {\n  from = terraform_data.a\n  connection {}\n}\n",
            2,
            "{\"removed\": [{\"from\": \"terraform_data.a\",\n\"connection\": {}}]}",
        ),
        (
            "a provisioner",
            2,
            "resource \"terraform_data\" \"a\" {\n  dynamic \"provisioner\" {\n    for_each = [1]\n    content {}\n  }\n}\n",
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"dynamic\": {\n\"provisioner\": {\"for_each\": [1], \"content\": {}}}}}}}",
        ),
        (
            "a provisioner",
            2,
            "resource \"terraform_data\" \"a\" {\n  dynamic \"prov\\u0069sioner\" {\n    for_each = [1]\n    content {}\n  }\n}\n",
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\"dynamic\": [{\n\"prov\\u0069sioner\": [{}]}]}}}}",
        ),
        (
            "a connection",
            1,
            "data \"kubernetes_service\" \"a\" { connection = 1 }\n",
            1,
            "{\"data\": {\"kubernetes_service\": {\"a\": {\"connection\": null}}}}",
        ),
        (
            "called \"_\"",
            2,
            "resource \"terraform_data\" \"a\" {\n  _ {\n    provisioner = 1\n  }\n}\n",
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"_\": {}}}}}",
        ),
        (
            "called \"_\"",
            2,
            "module \"a\" {\n  _ {}\n  source = \"./b\"\n}\n",
            2,
            "{\"module\": {\"a\": {\n\"_\": {}, \"source\": \"./b\"}}}",
        ),
    ]);
}

#[test]
fn a_provider_block_names_no_host_file_program_or_credential() {
    for argument in [
        "host",
        "username",
        "password",
        "insecure",
        "tls_server_name",
        "client_certificate",
        "client_key",
        "cluster_ca_certificate",
        "config_path",
        "config_paths",
        "config_context",
        "config_context_auth_info",
        "config_context_cluster",
        "token",
        "proxy_url",
        "load_config_file",
        "something_of_tomorrow",
    ] {
        let word = format!("\"{argument}\" in provider \"kubernetes\"");
        let native =
            format!("provider \"kubernetes\" {{\n  alias = \"a\"\n  {argument} = \"x\"\n}}\n");
        refused("main.tf", &native, 3, &word);
        let json = format!(
            "{{\"provider\": {{\"kubernetes\": [{{\"alias\": \"a\"}}, {{\n\"{argument}\": \"x\"}}]}}}}"
        );
        refused("main.tf.json", &json, 2, &word);
    }
    all_refused(&[(
        "\"exec\" in provider \"kubernetes\"",
        2,
        "provider \"kubernetes\" {\n  exec {\n    command = \"./x\"\n  }\n}\n",
        2,
        "{\"provider\": [{\"kubernetes\": {\n\"exec\": [{\"command\": \"./x\"}]}}]}",
    )]);
    // A block that makes blocks, and one that hides names, are on no list either.
    refused(
        "main.tf",
        "provider \"kubernetes\" {\n  dynamic \"exec\" {\n    for_each = [1]\n    content {}\n  }\n}\n",
        2,
        "\"dynamic\" in provider",
    );
    refused(
        "main.tf",
        "provider \"kubernetes\" {\n  _ {}\n}\n",
        2,
        "\"_\" in provider",
    );
    refused(
        "main.tf",
        "provider \"kubernetes\" { load_config_file = !true }\n",
        1,
        "load_config_file",
    );
    // Under another name it is the same provider, and another provider has no list of its own.
    let renamed = "terraform {\n  required_providers {\n    k = { source = \"hashicorp/kubernetes\" }\n  }\n}\nprovider \"k\" {\n  ignore_labels = []\n  token = \"x\"\n}\n";
    refused("main.tf", renamed, 8, "\"token\" in provider \"k\"");
    assert_eq!(faults("main.tf", renamed).len(), 1);
    refused(
        "main.tf",
        "provider \"random\" {\n  ignore_labels = []\n}\n",
        2,
        "ignore_labels",
    );
}

#[test]
fn ephemeral_values_are_refused() {
    all_refused(&[
        (
            "\"ephemeral\" is refused",
            1,
            "ephemeral \"kubernetes_token_request_v1\" \"a\" {}\n",
            2,
            "{\n\"ephemeral\": {\"kubernetes_token_request_v1\": {\"a\": {}}}}",
        ),
        (
            "something ephemeral",
            2,
            "variable \"a\" {\n  ephemeral = true\n}\n",
            2,
            "{\"variable\": {\"a\": {\n\"ephemeral\": true}}}",
        ),
        (
            "something ephemeral",
            3,
            "output \"a\" {\n  value = 1\n  ephemeral = !false\n}\n",
            2,
            "{\"output\": [{\"a\": [{\n\"ephemeral\": \"true\"}]}]}",
        ),
    ]);
}

#[test]
fn state_stays_where_sandboxd_keeps_it() {
    all_refused(&[
        (
            "a cloud block",
            2,
            "terraform {\n  cloud {\n    organization = \"o\"\n  }\n}\n",
            2,
            "{\"terraform\": {\n\"cloud\": {\"organization\": \"o\"}}}",
        ),
        (
            "backend \"s3\"",
            2,
            "terraform {\n  backend \"s3\" {}\n}\n",
            2,
            "{\"terraform\": [{\"backend\": {\n\"s3\": {}}}]}",
        ),
        (
            "backend \"s3\"",
            2,
            "terraform {\n  backend \"s\\u0033\" {}\n}\n",
            2,
            "{\"terraform\": [{\"backend\": [{\n\"s\\u0033\": [{}]}]}]}",
        ),
        (
            "\"path\" in backend \"local\"",
            3,
            "terraform {\n  backend \"local\" {\n    path = \"x\"\n  }\n}\n",
            2,
            "{\"terraform\": {\"backend\": {\"local\": {\n\"path\": \"x\"}}}}",
        ),
        (
            "\"workspace_dir\" in backend \"local\"",
            2,
            "terraform {\n  backend local { workspace_dir = \"x\" }\n}\n",
            2,
            "{\"terraform\": {\"backend\": {\"local\": [{\n\"workspace_dir\": \"x\"}]}}}",
        ),
    ]);
}

#[test]
fn a_root_whose_state_lives_elsewhere_may_say_where() {
    let rules = Rules {
        state_elsewhere: true,
        ..Rules::default()
    };
    for (path, text) in [
        (
            "main.tf",
            "terraform {\n  backend \"s3\" { bucket = \"b\" }\n}\n",
        ),
        (
            "main.tf",
            "terraform {\n  cloud {\n    organization = \"o\"\n  }\n}\n",
        ),
        (
            "main.tf.json",
            r#"{"terraform": [{"backend": [{"s3": {"bucket": "b"}}]}]}"#,
        ),
        (
            "main.tf",
            "terraform {\n  backend \"local\" { path = \"x\" }\n}\n",
        ),
    ] {
        let root = bundle(&[(path, text.as_bytes())]);
        assert_eq!(root.check(&rules), Ok(()), "{text}");
    }
    // Only its own file of a backend is put beside the root: what stands in a module is still refused.
    let module = bundle(&[
        ("main.tf", b"module \"a\" {\n  source = \"./a\"\n}\n"),
        ("a/main.tf", b"terraform {\n  backend \"s3\" {}\n}\n"),
    ]);
    assert_eq!(module.check(&rules).unwrap_err().len(), 1);
    let other = bundle(&[("main.tf", b"terraform {\n  experiments = []\n}\n")]);
    assert!(other.check(&rules).is_err());
}

#[test]
fn only_what_is_known_stands_at_the_top_and_in_terraform() {
    for name in [
        "action",
        "list",
        "plan",
        "required_providers",
        "run",
        "mock_provider",
    ] {
        let word = format!("\"{name}\" is refused");
        refused(
            "main.tf",
            &format!("locals {{}}\n{name} \"a\" {{}}\n"),
            2,
            &word,
        );
        refused("main.tf", &format!("{name} = 1\n"), 1, &word);
        refused("main.tf.json", &format!("{{\n\"{name}\": {{}}}}"), 2, &word);
    }
    for name in [
        "experiments",
        "language",
        "provider_meta",
        "state_store",
        "backends",
        "dynamic",
    ] {
        let word = format!("\"{name}\" is refused");
        refused(
            "main.tf",
            &format!("terraform {{\n{name} = 1\n}}\n"),
            2,
            &word,
        );
        refused(
            "main.tf",
            &format!("terraform {{\n{name} \"x\" {{}}\n}}\n"),
            2,
            &word,
        );
        refused(
            "main.tf.json",
            &format!("{{\"terraform\":[{{\n\"{name}\": {{}}}}]}}"),
            2,
            &word,
        );
    }
}

#[test]
fn data_that_runs_fetches_or_reads_states_is_refused() {
    for (kind, word) in [
        ("external", "runs a program"),
        ("http", "calls a host"),
        ("terraform_remote_state", "state of another root"),
        ("terraform_remote\\u005fstate", "state of another root"),
    ] {
        refused(
            "main.tf",
            &format!("\ndata \"{kind}\" \"a\" {{}}\n"),
            2,
            word,
        );
        refused(
            "main.tf",
            &format!("check \"c\" {{\n  data \"{kind}\" \"a\" {{}}\n}}\n"),
            2,
            word,
        );
        refused(
            "main.tf.json",
            &format!("{{\"data\": {{\"{kind}\":\n{{\"a\": {{}}}}}}}}"),
            2,
            word,
        );
        refused(
            "main.tf.json",
            &format!(
                "{{\"check\": {{\"c\": [{{\"data\": [{{\"{kind}\":\n[{{\"a\": {{}}}}]}}]}}]}}}}"
            ),
            2,
            word,
        );
    }
}

#[test]
fn modules_come_from_the_bundle() {
    for (source, word) in [
        ("hashicorp/consul/aws", "from elsewhere"),
        ("app.example.org/a/b/c", "from elsewhere"),
        ("git::https://host.example/x.git", "from elsewhere"),
        ("https://host.example/x.zip", "from elsewhere"),
        ("github.com/a/b", "from elsewhere"),
        ("/srv/modules/x", "from elsewhere"),
        ("C:\\\\modules", "from elsewhere"),
        ("file:///srv/x", "from elsewhere"),
        ("modules/x", "from elsewhere"),
        ("../x", "outside"),
        ("./a/../../x", "outside"),
        ("./.terraform/modules/x", "no plain path"),
        ("./a?b=c", "no plain path"),
        ("./nothing", "no Terraform configuration"),
        (".", "from elsewhere"),
    ] {
        // Which of them it is called is in `why` or `what`.
        let native = format!("module \"m\" {{\n  source = \"{source}\"\n}}\n");
        let said = faults("main.tf", &native);
        assert!(said.len() == 1 && said[0].0 == 2, "{source}: {said:?}");
        let json = format!("{{\"module\": {{\"m\": {{\n\"source\": \"{source}\"}}}}}}");
        let said = faults("main.tf.json", &json);
        assert!(said.len() == 1 && said[0].0 == 2, "{source}: {said:?}");
        let reason = match word {
            "from elsewhere" => "reaches the API server and nothing else",
            "outside" => "what is beneath it",
            "no plain path" => "not packed",
            other => other,
        };
        assert!(said[0].1.contains(reason), "{source}: {said:?}");
    }
    for worked_out in [
        "\"./${x}\"",
        "true ? \"./a\" : \"./b\"",
        "(\"./a\")",
        "<<A\n./a\nA",
    ] {
        let native = format!("module \"m\" {{\n  source = {worked_out}\n}}\n");
        refused("main.tf", &native, 2, "not written out");
    }
    refused("main.tf", "module \"m\" {\n}\n", 1, "needs to be told");
    refused(
        "main.tf",
        "module \"m\" {\n source = \"./\"\n}\n",
        2,
        "calls itself",
    );
    refused(
        "main.tf.json",
        "{\"module\": {\"m\": {\"source\": 1}}}",
        1,
        "not written out",
    );
    refused(
        "main.tf",
        "module \"m\" {\n source = \"./a\"\n provider \"x\" {}\n}\n",
        3,
        "\"provider\"",
    );
}

#[test]
fn modules_that_go_round_in_a_circle_are_refused_and_others_are_not() {
    let call = |to: &str| format!("module \"m\" {{\n  source = \"{to}\"\n}}\n");
    let (a, b, c) = (call("./a"), call("../b"), call("../a"));
    let found = check(&[
        ("main.tf", a.as_bytes()),
        ("a/main.tf", b.as_bytes()),
        ("b/main.tf", c.as_bytes()),
    ])
    .unwrap_err();
    let places: Vec<_> = found.iter().map(|f| (f.file.as_str(), f.line)).collect();
    assert_eq!(places, [("a/main.tf", 2), ("b/main.tf", 2)]);
    // The same module twice, and one beneath the other, is no circle.
    let (twice, inner) = (format!("{}{}", call("./a"), call("./b")), call("../b"));
    let files: [(&str, &[u8]); 3] = [
        ("main.tf", twice.as_bytes()),
        ("a/main.tf", inner.as_bytes()),
        ("b/main.tf", b"locals {}\n"),
    ];
    assert_eq!(check(&files), Ok(()));
}

#[test]
fn override_files_are_refused_by_name() {
    for path in [
        "override.tf",
        "override.tf.json",
        "x_override.tf",
        "m/_override.tf.json",
    ] {
        let text = if path.ends_with("json") { "{}" } else { "" };
        refused(path, text, 1, "an override file");
    }
    assert_eq!(
        check(&[("overrides.tf", b""), ("override_x.tf", b"")]),
        Ok(())
    );
}

#[test]
fn providers_are_those_of_the_image() {
    all_refused(&[
        (
            "evil/kubernetes",
            3,
            "terraform {\n  required_providers {\n    kubernetes = { source = \"evil/kubernetes\" }\n  }\n}\n",
            3,
            "{\"terraform\": {\"required_providers\":\n{\n\"kubernetes\": {\"source\": \"evil/kubernetes\"}}}}",
        ),
        (
            "hashicorp/aws",
            3,
            "terraform {\n  required_providers {\n    aws = \"~> 5.0\"\n  }\n}\n",
            2,
            "{\"terraform\": {\"required_providers\": {\n\"aws\": \"5.0\"}}}",
        ),
        (
            "in required_providers is refused: Terraform could take another",
            3,
            "terraform {\n  required_providers {\n    kubernetes = { source = \"hashicorp/${x}\" }\n  }\n}\n",
            2,
            "{\"terraform\": {\"required_providers\": {\n\"kubernetes\": {\"source\": \"hashicorp/${x}\"}}}}",
        ),
        (
            "in required_providers is refused: Terraform could take another",
            3,
            "terraform {\n  required_providers {\n    kubernetes = { source = \"hashicorp/kubernetes\", source = \"evil/kubernetes\" }\n  }\n}\n",
            2,
            "{\"terraform\": {\"required_providers\": {\n\"kubernetes\": {\"source\": \"hashicorp/kubernetes\", \"source\": \"evil/x\"}}}}",
        ),
        (
            "hashicorp/aws is not among",
            1,
            "resource \"aws_instance\" \"a\" {}\n",
            2,
            "{\"resource\": {\"aws_instance\": {\n\"a\": {}}}}",
        ),
        (
            "hashicorp/aws is not among",
            1,
            "data \"kubernetes_pod\" \"a\" {\n  provider = aws.west\n}\n",
            2,
            "{\"data\": {\"kubernetes_pod\": {\n\"a\": {\"provider\": \"aws.west\"}}}}",
        ),
        (
            "worked out",
            2,
            "resource \"kubernetes_pod\" \"a\" {\n  provider = x ? y : z\n}\n",
            2,
            "{\"resource\": {\"kubernetes_pod\": {\"a\": {\n\"provider\": \"${x}\"}}}}",
        ),
        (
            "hashicorp/aws is not among",
            1,
            "provider \"aws\" {}\n",
            2,
            "{\"provider\": {\n\"aws\": {}}}",
        ),
    ]);
    let words = faults("main.tf", "provider \"aws\" {}\n").remove(0).1;
    assert!(
        words.contains("hashicorp/random, registry.example/hashicorp/kubernetes"),
        "{words}"
    );
}

#[test]
fn every_form_of_json_that_terraform_takes_is_looked_at() {
    for (line, json) in [
        // repeated keys, at each level
        (
            2,
            "{\"resource\": {}, \"resource\": {\"terraform_data\": {\"a\": {\n\"provisioner\": {\"x\": {}}}}}}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {}, \"a\": {\n\"provisioner\": {}}}}}",
        ),
        (
            3,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"input\": 1,\n\"provisioner\": {}, \"input\": 2}}}}",
        ),
        // arrays, at each level
        (
            2,
            "[{}, {\"resource\": {\"terraform_data\": {\"a\": {\n\"provisioner\": {}}}}}]",
        ),
        (
            2,
            "{\"resource\": [{}, {\"terraform_data\": {\"a\": {\n\"provisioner\": {}}}}]}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": [{\"a\": {\n\"provisioner\": {}}}]}}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": [{}, {\n\"provisioner\": {}}]}}}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": [[{}, {\n\"provisioner\": {}}]]}}}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"provisioner\": [[{\"x\": {}}]]}}}}",
        ),
        // comments beside it, escapes in it
        (
            2,
            "{\"//\": \"x\", \"resource\": {\"terraform_data\": {\"a\": {\"//\": {},\n\"provisioner\": {}}}}}",
        ),
        (
            2,
            "{\"resource\": {\"terraform_data\": {\"a\": {\n\"prov\\u0069sioner\": {}}}}}",
        ),
        (
            2,
            "{\"re\\u0073ource\": {\"terraform_data\": {\"a\": {\n\"provisioner\": {}}}}}",
        ),
    ] {
        refused("main.tf.json", json, line, "a provisioner");
    }
    // Terraform skips a comment key in a body, and so do we; as a label it is none.
    assert_eq!(
        faults(
            "main.tf.json",
            "{\"//\": {\"resource\": 1}, \"terraform\": {\"//\": \"cloud\"}}"
        ),
        []
    );
    refused(
        "main.tf.json",
        "{\"resource\": {\"terraform_data\": {\"//\": {\n\"provisioner\": {}}}}}",
        2,
        "a provisioner",
    );
    refused(
        "main.tf.json",
        "{\"terraform\":\n\"x\"}",
        2,
        "a value where a block is due",
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    let utf16: Vec<u8> = "locals {}\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let utf16_bom = [&b"\xff\xfe"[..], &utf16].concat();
    let files: [(&[u8], u32, &str); 14] = [
        (&utf16_bom, 1, "UTF-16"),
        (&utf16, 1, "the character \\u{0}"),
        (b"a {}\n# caf\xe9\n", 2, "no UTF-8"),
        (b"a {}\nb {\n", 3, "where one is due"),
        (b"locals {\n  a = [1, 2\n}\n", 3, "do not match"),
        (
            b"locals {\n  a = \"x\ny\"\n}\n",
            2,
            "a line break within quotes",
        ),
        (
            b"locals {\n  a = <<EOT\nx\n EOTX\n}\n",
            6,
            "in the middle of a string",
        ),
        (b"locals {\n  a = <<EOT x\nEOT\n}\n", 2, "begins no heredoc"),
        (b"locals { a = 1\n}\n", 1, "does not end on it"),
        (b"locals {}  locals {}\n", 1, "more on a line"),
        (b"/* locals {}\n", 1, "a comment without an end"),
        (
            b"variable \"${x}\" {}\n",
            1,
            "a label that is no plain text",
        ),
        (b"locals {\n  a = 'x'\n}\n", 2, "the character \\'"),
        (
            b"\"resource\" \"a\" \"b\" {}\n",
            1,
            "no argument and no block",
        ),
    ];
    for (bytes, line, word) in files {
        let found = check(&[("main.tf", bytes)]).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, line, "{found:?}");
        assert!(found[0].to_string().contains(word), "{word}: {}", found[0]);
    }
}

#[test]
fn files_as_people_have_them_pass() {
    let native = "\u{feff}# a provisioner \"local-exec\" {}\r\n/* provisioner\r\n\"x\" {} */\r
terraform {\r
  required_version = \">= 1.5\"\r
  required_providers {\r
    kubernetes = {\r
      source                = \"hashicorp/kubernetes\"\r
      version               = \"~> 2.0\"\r
      configuration_aliases = [kubernetes.west]\r
    }\r
  }\r
  backend \"local\" {}\r
}\r
provider kubernetes {\r
  load_config_file   = false\r
  ignore_annotations = [\"x\"]\r
}\r
provider \"kubernetes\" { alias = \"west\" }\r
variable \"größe\" {\r
  type      = string\r
  ephemeral = false\r
  validation {\r
    condition     = var.größe != \"provisioner\"\r
    error_message = \"no $${provisioner} at 100%.\"\r
  }\r
}\r
locals {\r
  provisioner = { connection = \"x\", \"provisioner\" : 1 }\r
  text = <<-EOT\r
    provisioner \"local-exec\" {\r
    ${var.größe} %{ if true ~} \"x\" %{ endif }\r
    EOT is not its end\r
    EOT\r
  nested = \"${jsonencode({ a = \"}\", b = \"${1 + 1}\" })}\"\r
  read   = [file(\"x\"), fileset(path.module, \"*\"), provider::kubernetes::manifest_decode(\"\")]\r
}\r
resource \"kubernetes_config_map\" \"a\" {\r
  provider = kubernetes.west\r
  metadata {\r
    labels = { provisioner = \"x\" }\r
  }\r
  dynamic \"metadata\" {\r
    for_each = toset([])\r
    content {}\r
  }\r
  lifecycle {\r
    prevent_destroy = true\r
  }\r
}\r
resource \"terraform_data\" \"b\" {}\r
data \"kubernetes_config_map\" \"c\" { count = 0 }\r
check \"d\" {\r
  data \"kubernetes_config_map\" \"e\" {}\r
  assert {\r
    condition     = true\r
    error_message = \"x\"\r
  }\r
}\r
moved {\r
  from = terraform_data.x\r
  to   = terraform_data.b\r
}\r
import {\r
  to = terraform_data.b\r
  id = \"x\"\r
}\r
removed {\r
  from = terraform_data.y\r
  lifecycle {\r
    destroy = false\r
  }\r
}\r
output \"f\" { value = 1 }\r
module \"g\" {\r
  source    = \"./modules/g/\"\r
  providers = { kubernetes = kubernetes.west }\r
}\r
# the end without a line feed";
    let json = "{\"//\": \"c\", \"locals\": {\"provisioner\": {\"connection\": 1}}, \"module\": null,
        \"resource\": {\"kubernetes_secret\": {\"a\": {\"metadata\": [{\"labels\": {\"provisioner\": \"\\ud83d\\ude00\"}}]}}},
        \"terraform\": [{\"backend\": {\"local\": {}}}, {\"required_providers\": {\"random\": {\"source\": \"hashicorp/random\"}}}]}";
    let files: [(&str, &[u8]); 4] = [
        ("main.tf", native.as_bytes()),
        ("more.tf.json", json.as_bytes()),
        ("modules/g/main.tf", b""),
        ("data/x.json", b"\xff no text"),
    ];
    let found = check(&files).err().unwrap_or_default();
    assert!(
        found.is_empty(),
        "{:#?}",
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    );
}

#[test]
fn what_an_agent_wrote_is_escaped_and_cut_where_it_is_shown() {
    let label = format!("\u{202e}{}\\n", "x".repeat(200));
    let text = format!("terraform {{\n  backend \"{label}\" {{}}\n}}\n");
    let said = faults("main.tf", &text).remove(0).1;
    assert!(
        said.contains("backend \"\\u{202e}xxx") && said.is_ascii() && !said.contains('\n'),
        "{said}"
    );
    assert!(said.len() < 400, "{said}");
}

#[test]
fn a_hundred_faults_are_enough() {
    let text = "nonsense {}\n".repeat(1_000);
    let found = faults("main.tf", &text);
    assert_eq!(found.len(), 100);
    assert_eq!(found[99].0, 100);
}
