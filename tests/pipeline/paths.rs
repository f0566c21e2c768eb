//! Relative paths among the arguments: the guest gets them absolute, which is a change on record.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use toolcell_engine::approval::Reply;
use toolcell_executor::hook::{HookOutput, Registration};
use toolcell_spec::digest;

use super::approvals::{asked, place};
use super::doubles::{RecordingHook, echoing, naming_paths, own_host};
use super::hook_outputs::check_chain;
use crate::support::{Test, scratch};

/// A tool that answers its arguments, called from `cwd`.
fn from(cwd: &Path, namespace: &str, change: impl FnOnce(&mut Value)) -> Test {
    let component = echoing(namespace, |toolkit| {
        naming_paths(toolkit);
        change(toolkit);
    });
    let cwd = cwd.to_owned();
    Test::of_bytes(component, None).grant(|grants| grants.cwd = Some(cwd))
}

#[tokio::test]
async fn a_relative_path_reaches_the_guest_from_the_callers_folder_and_what_is_observed() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let at = |path: &str| format!("{}/{path}", folder.display());
    let sent = json!({ "path": "sub", "all": ["./a.txt", at("sub/b.txt"), "sub/../c.txt"], "note": "a.txt" });
    let called = from(&folder, "relative", |_| {})
        .read(&folder)
        .call(sent.clone())
        .await;
    let given = json!({ "path": at("sub"), "all": [at("./a.txt"), at("sub/b.txt"), at("sub/../c.txt")], "note": "a.txt" });
    assert_eq!(called.succeeded(), given);
    let record = called.record();
    // To be looked at, each path is also canonical; what is decided on stays as it was sent.
    let seen = json!({ "path": at("sub"), "all": [at("a.txt"), at("sub/b.txt"), at("c.txt")], "note": "a.txt" });
    assert_eq!(record["invocation"]["observable_input"], seen);
    assert_ne!(
        record["invocation"]["observable_input_ref"],
        record["invocation"]["model_input_ref"]
    );
    for input in ["model_input", "permission_input"] {
        assert_eq!(record["invocation"][input], sent, "{input}");
    }
    assert_eq!(record["invocation"]["call_input"], given);
    let reference = digest(given.to_string().as_bytes());
    assert_eq!(record["invocation"]["call_input_ref"], reference);
    let changes = record["result"]["input_mutations"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:#?}");
    assert_eq!(
        (&changes[0]["source_type"], &changes[0]["source_ref"]),
        (&json!("runtime"), &json!("paths"))
    );
    assert_eq!(changes[0]["changed_fields"], json!(["/all", "/path"]));
    check_chain(&called);
}

#[tokio::test]
async fn what_is_observed_is_where_the_links_of_a_path_lead() {
    let (_guard, folder) = scratch();
    std::fs::create_dir_all(folder.join("real/deep")).unwrap();
    symlink("real/deep", folder.join("link")).unwrap();
    symlink("/", folder.join("out")).unwrap();
    let mapped = format!("{}=/work", folder.display());
    let sent = json!({ "path": "link/../b", "all": ["link", "out/../etc", "none/../b"] });
    let called = from(&folder, "linked", |_| {})
        .grant(|grants| grants.allow_read(&mapped).unwrap())
        .call(sent.clone())
        .await;
    let record = called.record();
    let seen = json!({
        "path": "/work/real/b", "all": ["/work/real/deep", "/work/out/../etc", "/work/none/../b"],
    });
    assert_eq!(record["invocation"]["observable_input"], seen);
    for input in ["model_input", "permission_input"] {
        assert_eq!(record["invocation"][input], sent, "{input}");
    }
}

#[tokio::test]
async fn a_path_starts_at_the_guests_name_of_the_callers_folder() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let mapped = format!("{}=/work", folder.display());
    let test = from(&folder.join("sub"), "mapped", |_| {});
    let called = test
        .grant(|grants| grants.allow_read(&mapped).unwrap())
        .call(json!({ "path": "../a.txt" }))
        .await;
    assert_eq!(called.succeeded(), json!({ "path": "/work/sub/../a.txt" }));
}

#[tokio::test]
async fn a_sensitive_path_is_redacted_as_the_guest_gets_it_too() {
    let (_guard, folder) = scratch();
    // An item has no name that would hide it in the answer for that alone.
    let hide = |toolkit: &mut Value| {
        toolkit["declarations"][0]["input_contract"]["sensitive_fields"] = json!(["/all/0"]);
    };
    let sent = |item: &str| json!({ "all": [item] });
    // What a hook changes was not observed.
    let hook = RecordingHook::new("renamer").before([HookOutput::UpdatedInput(sent("pin7"))]);
    let hook = Registration::new(hook.shared());
    for (hooks, path) in [(vec![], "pin7"), (vec![hook], "/q")] {
        let host = own_host(|settings| settings.hooks(hooks));
        let called = from(&folder, "sensitive", hide)
            .on(&host)
            .read(&folder)
            .call(sent(path))
            .await;
        assert_eq!(called.succeeded(), sent("[redacted]"));
        assert!(!called.record()["result"].to_string().contains("pin7"));
    }
}

#[tokio::test]
async fn without_a_folder_a_path_stays_as_it_was_sent() {
    let (_guard, folder) = scratch();
    let sent = json!({ "path": "a.txt", "all": [] });
    let pure = |toolkit: &mut Value| toolkit["permission_profiles"][0]["access_kinds"] = json!([]);
    assert_eq!(
        from(&folder, "pure", pure)
            .call(sent.clone())
            .await
            .succeeded(),
        sent
    );
}

#[tokio::test]
async fn a_relative_path_that_leads_outside_of_the_grants_is_denied_as_it_was_sent() {
    let (_guard, folder) = scratch();
    std::fs::create_dir(folder.join("sub")).unwrap();
    let test = from(&folder, "outside", |_| {}).read(&folder.join("sub"));
    let called = test.call(json!({ "path": "../a.txt" })).await;
    called
        .failed("permission_denied", "path_not_granted")
        .never_ran();
    assert!(
        called.message().contains("../a.txt leads outside"),
        "{}",
        called.message()
    );
}

#[tokio::test]
async fn an_approver_sees_and_edits_what_was_sent_and_the_guest_gets_what_was_approved() {
    for (edited, expected) in [(None, "a.txt"), (Some(json!({ "path": "b.txt" })), "b.txt")] {
        let (_guard, folder) = place();
        for file in ["a.txt", "b.txt"] {
            std::fs::write(folder.join(file), "").unwrap();
        }
        let sent = json!({ "path": "a.txt" });
        let (host, sayer) = asked(
            &folder,
            Some(Reply {
                approved: true,
                edit: edited.map(|input| input.to_string()),
                ..Reply::default()
            }),
        );
        let asks = |toolkit: &mut Value| {
            toolkit["permission_profiles"][0]["approval_required"] = json!(true)
        };
        let called = from(&folder, "approved", asks)
            .on(&host)
            .read(&folder)
            .call(sent.clone())
            .await;
        let given = json!({ "path": folder.join(expected) });
        assert_eq!(called.succeeded(), given);
        assert_eq!(called.record()["invocation"]["call_input"], given);
        check_chain(&called);
        let asked = sayer.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(
            serde_json::to_value(&asked[0].1.invocation).unwrap()["permission_input"],
            sent
        );
    }
}
