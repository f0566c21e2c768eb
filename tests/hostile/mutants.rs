//! Mutation tests: each guard of the boundary is left out in turn, and some test must fail. A guard whose absence no
//! test notices is not tested. `just mutants` runs this; the switches exist only with the cargo feature `mutants`.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Each guard by its name in the code, with the attacks (by id) and the tests (by name) that must notice its absence;
/// the prefix `unit:` means a unit test beside the code.
const MUTANTS: &[(&str, &[&str], &[&str])] = &[
    ("memory_limit", &["MEM-2"], &[]),
    ("table_limit", &["MEM-3"], &[]),
    (
        "instance_limit",
        &[],
        &["sandbox::space::instances_are_counted"],
    ),
    (
        "instance_metadata",
        &[],
        &[
            "unit:metadata::",
            "sandbox::space::what_the_engine_keeps",
            "sandbox::space::components_count",
        ],
    ),
    (
        "whole_memory",
        &[],
        &["sandbox::worlds::near::a_body_counts_as_memory"],
    ),
    ("fuel", &[], &["sandbox::limits::"]),
    (
        "cpu_time",
        &[],
        &["sandbox::limits::a_tool_that_is_metered_by_time"],
    ),
    (
        "hostcall_fuel",
        &[],
        &["sandbox::floods::an_answer_over_the_limit_is_not_copied_out_of_the_guest"],
    ),
    ("deadline", &["CPU-7"], &[]),
    ("yield", &["CPU-1"], &[]),
    ("cancellation", &["CPU-8"], &[]),
    (
        "handles",
        &[],
        &["sandbox::space::handles_of_every_kind_are_bounded"],
    ),
    ("descriptors", &["HC-2"], &[]),
    (
        "file_turns",
        &[],
        &["sandbox::worlds::concurrent::a_call_takes_few_threads"],
    ),
    (
        "key_owner",
        &[],
        &["server::fifty_principals::what_one_of_fifty"],
    ),
    (
        "principal_view",
        &[],
        &["server::principals::each_has_tools"],
    ),
    (
        "principal_tools",
        &[],
        &["server::principals::each_has_tools"],
    ),
    (
        "principal_grants",
        &[],
        &["server::principals::each_has_tools"],
    ),
    (
        "principal_rules",
        &[],
        &["server::principals::each_has_tools"],
    ),
    (
        "principal_limits",
        &[],
        &["server::principals::each_has_tools"],
    ),
    ("quotas", &[], &["server::principals::a_quota_is_refused"]),
    ("log_limit", &["HC-4"], &[]),
    (
        "command_output",
        &[],
        &["sandbox::worlds::command::a_command_that_prints_too_much"],
    ),
    ("command_paths", &[], &["unit:world::command::input::"]),
    (
        "request_headers",
        &[],
        &["sandbox::worlds::http::a_caller_sends_no_header"],
    ),
    ("route_paths", &[], &["unit:world::http::request::"]),
    (
        "response_output",
        &[],
        &["sandbox::worlds::http::limits_hold"],
    ),
    (
        "command_links",
        &[],
        &["unit:world::command::command_files::"],
    ),
    ("output_limit", &["HC-4"], &[]),
    (
        "partial_results",
        &[],
        &["sandbox::floods::all_partial_results_together"],
    ),
    (
        "schema_work",
        &[],
        &["cli::contracts::recursion_that_multiplies"],
    ),
    ("journal_shares", &[], &["unit:log::tests::share::"]),
    (
        "journal_inputs",
        &[],
        &[
            "unit:log::tests::share::",
            "cli::calls::large_arguments_are_in_the_journal_once",
        ],
    ),
    (
        "sensitive_shape",
        &[],
        &["pipeline::redaction::arguments_of_another_shape"],
    ),
    ("sensitive_places", &[], &["unit:secret::redactor::"]),
    (
        "sensitive_short",
        &[],
        &["pipeline::redaction::short_values_that_the_tool_repeats"],
    ),
    ("unique_names", &["SCH-1"], &[]),
    ("read_only", &["FS-3"], &[]),
    (
        "own_files_read_only",
        &[],
        &["cli::own_files::a_component_changes_none"],
    ),
    (
        "retention",
        &[],
        &["cli::demands::a_result_of_a_tool_that_says_how_long_ends_then"],
    ),
    (
        "preflight_hooks",
        &[],
        &["pipeline::approval_seams::nothing_is_read_before_a_hook"],
    ),
    (
        "preflight_reads",
        &[],
        &["sandbox::checks::a_preflight_reads_what_the_call_may_read"],
    ),
    (
        "denials",
        &[],
        &["sandbox::denials::what_is_denied_for_reading"],
    ),
    (
        "authority_closed",
        &[],
        &["server::authority::no_tool_reads_what_holds_authority"],
    ),
    (
        "components_closed",
        &[],
        &["server::authority::no_tool_replaces_what_holds_authority"],
    ),
    (
        "same_files",
        &[],
        &["server::authority::a_file_that_is_mounted_elsewhere_too"],
    ),
    (
        "pseudo_files",
        &[],
        &[
            "server::authority::the_state_of_the_kernel",
            "unit:pseudo_files::",
        ],
    ),
    (
        "grown_ceilings",
        &[],
        &["server::authority::a_component_that_"],
    ),
    (
        "not_dumpable",
        &[],
        &["server::authority::another_program_of_the_user"],
    ),
    ("denial_races", &[], &["sandbox::races::"]),
    ("hard_links", &[], &["sandbox::denials::a_second_name"]),
    ("denied_names", &[], &["cli::links::a_link_that_is_closed"]),
    ("denied_links", &[], &["cli::links::a_denial_that_leads"]),
    ("grant_links", &[], &["cli::links::a_tool_that_puts_a_link"]),
    (
        "project_links",
        &[],
        &["cli::links::a_trusted_project_that_puts_a_link"],
    ),
    (
        "trusted_folders",
        &[],
        &["cli::links::a_trusted_project_whose_words"],
    ),
    ("file_owner", &[], &["cli::ownership::"]),
    ("access_lists", &[], &["cli::ownership::an_access_list"]),
    ("disk_bytes", &["FS-6"], &[]),
    (
        "special_files",
        &[],
        &["server::pools::six_hundred_opens_of_a_fifo"],
    ),
    (
        "settle",
        &[],
        &["server::pools::a_file_does_not_grow_after_the_verdict"],
    ),
    (
        "host_memory",
        &["MEM-15"],
        &[
            "server::pools::what_streams_hold_counts",
            "sandbox::held::headers_and_bodies",
        ],
    ),
    (
        "stacks",
        &["MEM-14"],
        &["sandbox::held::the_stacks_of_tasks"],
    ),
    ("payload_share", &[], &["unit:payload_space::"]),
    (
        "payload_bytes",
        &[],
        &[
            "unit:payload_space::",
            "cli::artifacts::payloads_have_a_bound",
        ],
    ),
    ("payload_drafts", &[], &["unit:payload_space::"]),
    (
        "memory_total",
        &[],
        &["server::pools::a_call_waits_for_the_memory_of_all_calls"],
    ),
    ("files_created", &["FS-6"], &[]),
    (
        "tool_grants",
        &[],
        &["pipeline::children::a_tool_calls_what_was_granted"],
    ),
    (
        "child_ceiling",
        &[],
        &["pipeline::children::a_call_may_touch_no_more"],
    ),
    (
        "child_changes",
        &[],
        &["pipeline::children::a_call_that_may_change_nothing"],
    ),
    (
        "child_share",
        &[],
        &["pipeline::children::a_call_gets_the_memory"],
    ),
    (
        "child_quotas",
        &[],
        &[
            "pipeline::children::bytes_that_a_call_writes",
            "pipeline::children::requests_of",
            "unit:children::tests::",
        ],
    ),
    (
        "child_fuel",
        &[],
        &["pipeline::children::a_call_uses_up_the_fuel"],
    ),
    ("child_unread", &[], &["unit:pipeline::children::line::"]),
    (
        "child_names",
        &[],
        &["pipeline::children::secrecy::what_is_sensitive_of_a_call"],
    ),
    (
        "child_redaction",
        &[],
        &["pipeline::children::secrecy::what_is_sensitive_of_a_call"],
    ),
    (
        "child_persistence",
        &[],
        &["pipeline::children::secrecy::what_a_call_says_in_passing"],
    ),
    (
        "child_network",
        &[],
        &["pipeline::children::a_call_that_may_call_a_tool"],
    ),
    (
        "child_resume",
        &[],
        &["cli::children::a_call_whose_caller_was_killed"],
    ),
    ("environment", &["SEC-1"], &[]),
    ("no_network", &["NET-1"], &[]),
    ("network_declared", &[], &["unit:network::"]),
    ("network_grants", &["NET-3"], &[]),
    (
        "network_denials",
        &[],
        &["sandbox::network::grants::a_denial_wins_over_a_grant"],
    ),
    ("network_requests", &["NET-4"], &[]),
    (
        "safe_methods",
        &[],
        &["sandbox::network::grants::a_tool_without_remote_effects"],
    ),
    ("special_addresses", &["NET-2"], &[]),
    ("vet_addresses", &["NET-5"], &[]),
    ("resolve_once", &["NET-5"], &[]),
    (
        "own_addresses",
        &[],
        &["server::http::own_port::a_tool_cannot_call_the_server_that_runs_it"],
    ),
    (
        "machine_addresses",
        &[],
        &["server::http::own_port::a_wide_grant_does_not_reach"],
    ),
    (
        "framing_headers",
        &[],
        &["sandbox::network::framing::a_guest_writes_no_header"],
    ),
    (
        "guest_credentials",
        &[],
        &["sandbox::network::framing::a_guest_sends_no_credentials"],
    ),
    ("secret_origin", &["NET-4"], &[]),
    (
        "request_secret_redaction",
        &[],
        &["pipeline::redaction::secrets_that_a_request_brings"],
    ),
    (
        "workspace_quota",
        &[],
        &["cli::workspaces::a_quota_ends_the_call"],
    ),
    (
        "workspace_owner",
        &[],
        &["server::workspaces::each_caller_has_files"],
    ),
    (
        "absolute_terms",
        &[],
        &["pipeline::paths::a_sensitive_path_is_redacted"],
    ),
    (
        "request_secret_arguments",
        &[],
        &["pipeline::redaction::secrets_that_a_request_brings"],
    ),
    (
        "request_secret_question",
        &[],
        &["pipeline::approvals::a_secret_of_the_request_hides_nothing"],
    ),
    (
        "request_secret_resume",
        &[],
        &["server::otc::secrets::a_call_whose_process_ended"],
    ),
    ("scrub_head", &["SEC-3"], &[]),
    ("scrub_body", &["SEC-3"], &[]),
    (
        "compressed_bodies",
        &[],
        &["sandbox::secrets::a_body_in_which_no_value"],
    ),
    (
        "clock_jumps",
        &[],
        &["unit:log::tests::segments_that_are_too_old"],
    ),
    (
        "log_head",
        &[],
        &["unit:log::tests::damage::a_row_or_a_head"],
    ),
    ("replay_log", &[], &["cli::replay::a_damaged_record"]),
    (
        "replay_world",
        &[],
        &["cli::replay::a_replay_gets_no_grants"],
    ),
    (
        "redaction",
        &[],
        &["pipeline::redaction::a_tool_that_copies_a_sensitive_argument"],
    ),
    (
        "exported_names",
        &[],
        &["cli::dialects::a_model_reaches_no_tool"],
    ),
    (
        "bound_names",
        &[],
        &["cli::records::an_allow_rule_by_name_lets_no_impostor_run"],
    ),
    (
        "tool_ids",
        &[],
        &["cli::records::two_components_with_one_tool_id"],
    ),
    (
        "secret_results",
        &[],
        &["cli::records::a_secret_result_stays_in_no_record"],
    ),
    ("approval_binding", &["APR-2"], &[]),
    ("bound_component", &["SUP-3"], &[]),
    ("bound_capability", &["APR-2"], &[]),
    ("bound_actor", &["APR-2"], &[]),
    (
        "bound_configuration",
        &[],
        &["cli::configuration::an_approval_is_void"],
    ),
    (
        "approval_once",
        &[],
        &["pipeline::approvals::two_who_go_on_at_once"],
    ),
    (
        "approval_expiry",
        &[],
        &["pipeline::approvals::a_question_has_an_end"],
    ),
    ("self_approval", &["APR-2"], &[]),
    (
        "always_scope",
        &[],
        &["cli::approvals::sessions::always_covers_what_lies_below"],
    ),
    ("prompt_escapes", &["APR-1"], &[]),
    (
        "prompt_truncateds",
        &[],
        &["cli::approvals::terminal::long_arguments_are_cut"],
    ),
    (
        "client_program",
        &[],
        &["cli::clients::doctor_starts_no_other_program"],
    ),
    (
        "client_home",
        &[],
        &["cli::clients::doctor_starts_no_server_with_its_state"],
    ),
    ("noted_bytes", &[], &["unit:trail::"]),
    (
        "listened_records",
        &[],
        &["server::telemetry::an_output_that_may_be_on_no_disk"],
    ),
    (
        "telemetry_source",
        &[],
        &[
            "unit:telemetry::tests::",
            "server::telemetry::the_file_of_a_project",
        ],
    ),
    ("cluster_source", &[], &["unit:cluster::tests::a_project"]),
    ("cluster_gateway", &[], &["unit:question::tests::"]),
    (
        "cluster_approver_signature",
        &[],
        &["unit:approvals::tests::an_answer_is"],
    ),
    (
        "cluster_approval_binding",
        &[],
        &["unit:approvals::tests::an_answer_to"],
    ),
    ("cluster_signature", &[], &["unit:question::tests::"]),
    ("telemetry_quotes", &[], &["unit:telemetry::tests::"]),
    (
        "telemetry_clear",
        &[],
        &[
            "unit:telemetry::tests::",
            "server::telemetry::headers_do_not_leave",
        ],
    ),
    ("page_cookie", &[], &["cli::inspect::the_address_lets_one"]),
    ("page_code", &[], &["cli::inspect::the_address_lets_one"]),
    ("page_host", &[], &["cli::inspect::every_answer_keeps"]),
    (
        "page_origin",
        &[],
        &[
            "cli::inspect::a_form_of_another_page",
            "server::page::a_form_of_another_page",
        ],
    ),
    ("page_role", &[], &["server::page::a_token_of_whoever"]),
    (
        "page_owner",
        &[],
        &[
            "server::page::each_sees_its_own",
            "server::page::an_open_page_hears",
        ],
    ),
    ("page_question", &[], &["server::page::an_approver_answers"]),
    ("workspace_one", &[], &["server::page::the_one_workspace"]),
    (
        "metrics_role",
        &[],
        &["server::http_api::approvals::an_approver_answers_about"],
    ),
    (
        "metrics_token",
        &[],
        &["server::http::deployment::metrics_have_a_token"],
    ),
    (
        "token_file_mode",
        &[],
        &["server::http::deployment::a_mounted_secret"],
    ),
    (
        "approver_names",
        &[],
        &["unit:http::token::tests::a_person_has_one_role"],
    ),
    (
        "one_budget",
        &[],
        &["pipeline::interaction::a_call_that_asks_has_one_budget"],
    ),
    (
        "hook_failures",
        &[],
        &["pipeline::hook_failures::a_hook_that_crashes"],
    ),
    ("hook_denials", &[], &["pipeline::hook"]),
    ("careful_hooks", &[], &["unit:opinion::"]),
    ("captured_output", &["FE-3"], &[]),
    (
        "never_persisted",
        &[],
        &["pipeline::results::an_output_that_may_be_on_no_disk"],
    ),
    (
        "quiet_results",
        &[],
        &["pipeline::results::what_a_tool_says_beside_its_output"],
    ),
    ("artifact_refs", &["ART-2"], &[]),
    (
        "artifact_rules",
        &[],
        &["pipeline::artifacts::a_tool_whose_output_has_redaction_rules"],
    ),
    (
        "artifact_redaction",
        &[],
        &["pipeline::artifacts::a_sensitive_value_is_in_no_artifact"],
    ),
    (
        "artifact_bytes",
        &[],
        &["pipeline::artifacts::quotas_are_told"],
    ),
    (
        "artifact_count",
        &[],
        &["pipeline::artifacts::quotas_are_told"],
    ),
    (
        "artifacts_open",
        &[],
        &["pipeline::artifacts::quotas_are_told"],
    ),
    (
        "artifact_chunks",
        &[],
        &["pipeline::artifacts::quotas_are_told"],
    ),
    (
        "artifact_names",
        &[],
        &["pipeline::artifacts::a_name_is_short"],
    ),
    ("terminal_escapes", &["OUT-2"], &[]),
    ("compile_time", &["CMP-1"], &[]),
    ("compile_memory", &["CMP-1"], &[]),
    ("compile_filter", &[], &["cli::compiling::"]),
    ("compile_signals", &[], &["unit:confine::"]),
    (
        "native_code",
        &[],
        &["sandbox::loading::native_code_is_refused"],
    ),
    ("cache_authentication", &[], &["sandbox::cache::"]),
    (
        "cache_notes",
        &[],
        &["cli::thousand::a_note_that_was_forged"],
    ),
    ("surface", &[], &["cli::surface::"]),
    ("private_files", &[], &["sandbox::cache::"]),
    (
        "client_memory",
        &[],
        &["server::memory::calls_that_would_take_too_much"],
    ),
    (
        "unknown_cancels",
        &[],
        &[
            "server::tasks::ends::a_flood_of_cancellations",
            "unit:unknown_cancels::",
        ],
    ),
    (
        "suspended_output",
        &[],
        &["server::tasks::suspended::a_call_whose_output_may_be_on_no_disk"],
    ),
    ("suspended_once", &[], &["unit:store::suspend::"]),
    ("suspended_bytes", &[], &["unit:store::suspend::"]),
    (
        "suspended_binding",
        &[],
        &["server::tasks::suspended::a_suspended_call_of_a_tool_that_is_not_the_same"],
    ),
    (
        "suspended_approval",
        &[],
        &["server::tasks::suspended::a_suspended_call_of_a_tool_that_is_not_the_same"],
    ),
    (
        "task_owner",
        &[],
        &["server::tasks::a_task_is_its_principals_alone"],
    ),
    (
        "task_limit",
        &[],
        &["server::tasks::a_principal_has_so_many_tasks"],
    ),
    (
        "request_framing",
        &[],
        &["server::http::limits::a_request_says_once"],
    ),
    (
        "call_owner",
        &[],
        &["server::http_api::a_caller_sees_its_own_calls_alone"],
    ),
    (
        "tool_name_bytes",
        &[],
        &[
            "server::exchange::what_cannot_be_read",
            "server::http_api::what_cannot_be_read",
        ],
    ),
    (
        "approver_role",
        &[],
        &["server::http_api::approvals::a_caller_approves_no_call"],
    ),
    (
        "question_owner",
        &[],
        &["server::http_api::approvals::a_caller_approves_no_call"],
    ),
    (
        "canceled_ids",
        &[],
        &["server::stopping::an_id_that_was_canceled"],
    ),
    (
        "rules_anywhere",
        &[],
        &["cli::policy::a_denied_name_is_denied_in_every_folder"],
    ),
    (
        "internal_tools",
        &[],
        &["cli::demands::a_tool_that_no_caller_may_have"],
    ),
    (
        "needed_users",
        &[],
        &["cli::demands::what_rules_and_people_cannot_be_sure_of"],
    ),
    (
        "unheard_policies",
        &[],
        &["cli::demands::what_rules_and_people_cannot_be_sure_of"],
    ),
    (
        "asked_channel",
        &[],
        &["server::approvals::the_clients_user_is_asked_only_if"],
    ),
    (
        "approval_channel",
        &[],
        &["cli::approvals::answers::an_approval_counts_only_through"],
    ),
    (
        "mapped_writes",
        &[],
        &["cli::cache::a_component_that_changes_through_a_mapping"],
    ),
    (
        "building_is_consent",
        &[],
        &["cli::consent::looking_at_a_source_folder"],
    ),
    (
        "sources_closed",
        &[],
        &["cli::consent::no_tool_and_no_hook"],
    ),
    ("record_bytes", &[], &["unit:log::"]),
    (
        "unsaid_files",
        &[],
        &["cli::foreign::files_that_a_component_cannot_declare"],
    ),
    (
        "ceiling",
        &[],
        &[
            "unit:world::wit::toolkit::",
            "cli::wrap::a_policy_of_wassette",
        ],
    ),
    ("registry_source", &[], &["unit:registry::tests::"]),
    (
        "registry_redirects",
        &[],
        &["cli::registry::pulling::a_redirect_to_where"],
    ),
    (
        "registry_credentials",
        &[],
        &["cli::registry::pushing::an_upload_to_another_host"],
    ),
    (
        "registry_challenges",
        &[],
        &["cli::registry::pulling::another_host_cannot_ask"],
    ),
    (
        "registry_realm",
        &[],
        &["cli::registry::pulling::credentials_go_to_no_token_server"],
    ),
    (
        "identity_redirects",
        &[],
        &["cli::registry::pulling::a_token_server_does_not_pass"],
    ),
    (
        "helper_folders",
        &[],
        &["cli::registry::pushing::a_credential_helper_is_asked"],
    ),
    (
        "registry_digests",
        &[],
        &["cli::registry::pulling::bytes_that_do_not_have_their_digest"],
    ),
    (
        "otc_secrets",
        &[],
        &["unit:otc::tests::a_call_gets_the_secrets"],
    ),
    ("otc_ids", &[], &["unit:otc::request::"]),
    ("otc_owner", &[], &["unit:otc::authorizations::"]),
    ("jwt_algorithm", &[], &["unit:otc::token::"]),
    ("jwt_signature", &[], &["unit:otc::token::"]),
    ("jwt_audience", &[], &["unit:otc::token::"]),
    ("jwt_expiry", &[], &["unit:otc::token::"]),
    (
        "issuer_source",
        &[],
        &["unit:issuer::tests::a_project_chooses"],
    ),
    (
        "issuer_clear",
        &[],
        &["unit:issuer::tests::what_no_issuer_has"],
    ),
    (
        "principal_issuer",
        &[],
        &["server::sign_in::tokens::a_token_names_one_principal"],
    ),
    (
        "token_size",
        &[],
        &["server::sign_in::tokens::a_token_that_is_not_for_this_server"],
    ),
    (
        "token_type",
        &[],
        &["server::sign_in::tokens::a_token_that_is_not_for_this_server"],
    ),
    (
        "token_audience",
        &[],
        &["server::sign_in::tokens::a_token_that_is_not_for_this_server"],
    ),
    (
        "token_expiry",
        &[],
        &["server::sign_in::tokens::a_token_that_is_not_for_this_server"],
    ),
    (
        "token_start",
        &[],
        &["server::sign_in::tokens::a_token_that_is_not_for_this_server"],
    ),
    (
        "token_algorithm",
        &[],
        &["server::sign_in::tokens::a_token_does_not_choose"],
    ),
    (
        "token_signature",
        &[],
        &["server::sign_in::tokens::a_token_does_not_choose"],
    ),
    (
        "token_scope",
        &[],
        &["server::sign_in::tokens::a_token_needs_each_scope"],
    ),
    (
        "token_principals",
        &[],
        &["server::sign_in::tokens::a_token_names_one_principal"],
    ),
    (
        "token_end",
        &[],
        &["server::sign_in::tokens::a_token_ends_on_a_kept"],
    ),
    (
        "token_in_url",
        &[],
        &["server::sign_in::protocol::a_token_is_in_one_header"],
    ),
    (
        "token_key_use",
        &[],
        &["server::sign_in::issuers::what_an_issuer_answers"],
    ),
    (
        "token_key_algorithm",
        &[],
        &["server::sign_in::issuers::what_an_issuer_answers"],
    ),
    (
        "token_key_pause",
        &[],
        &["server::sign_in::issuers::a_flood_of_unknown_keys"],
    ),
    (
        "token_metadata",
        &[],
        &["server::sign_in::issuers::metadata_names_its_own"],
    ),
    ("questions_of_caller", &[], &["unit:store::retention::"]),
    ("questions_bytes", &[], &["unit:store::retention::"]),
    (
        "bundle_ambiguity",
        &[],
        &["cli::signatures::bundles::a_bundle_that_could"],
    ),
    (
        "signed_predicate",
        &[],
        &["cli::signatures::each_tampered_bundle"],
    ),
    ("signed_digest", &[], &["unit:signature::"]),
    ("managed_key", &[], &["cli::signatures::a_managed_key"]),
    ("minisign", &[], &["cli::signatures::minisign_signs"]),
    (
        "trust_policy",
        &[],
        &["cli::signatures::a_keyless_signature"],
    ),
    (
        "package_hashes",
        &[],
        &["cli::install::packages::a_file_of_a_package"],
    ),
    (
        "fetched_digests",
        &[],
        &["cli::install::locks::locked_bytes_that_changed"],
    ),
    (
        "rooted_hosts",
        &[],
        &["unit:reference::tests::what_is_no_reference"],
    ),
    (
        "redirect_schemes",
        &[],
        &["cli::install::web::a_server_leads_nowhere_else"],
    ),
    (
        "redirect_addresses",
        &[],
        &["cli::install::web::a_server_leads_nowhere_else"],
    ),
    (
        "unsigned",
        &[],
        &["cli::install::web::a_url_is_installed", "unit:signature::"],
    ),
    (
        "declared_unsigned",
        &[],
        &["cli::install::web::one_reference_that_may"],
    ),
    (
        "known_signers",
        &[],
        &["cli::install::web::what_may_be_unsigned"],
    ),
    (
        "install_consent",
        &[],
        &["cli::install::nothing_is_installed_without_consent"],
    ),
    (
        "store_digests",
        &[],
        &["cli::install::a_component_that_was_changed_in_the_store"],
    ),
    (
        "confirmed_locks",
        &[],
        &["cli::install::locks::a_lock_that_was_edited"],
    ),
    (
        "declared_tools",
        &[],
        &["cli::install::locks::a_name_that_the_project_declares"],
    ),
    ("url_spellings", &[], &["unit:trust::tests::no_spelling"]),
    (
        "installed_names",
        &[],
        &["cli::install::impostors::a_rule_that_names"],
    ),
    (
        "reserved_names",
        &[],
        &["cli::install::impostors::a_lock_that_was_changed"],
    ),
    (
        "orphaned_names",
        &[],
        &[
            "unit:lock_location::tests::a_name_stays_with",
            "cli::install::impostors::a_lock_that_was_changed",
        ],
    ),
    (
        "impostors",
        &[],
        &[
            "cli::install::impostors::a_tool_calls_no",
            "cli::install::impostors::an_impostor_has_no",
        ],
    ),
    (
        "names_kept",
        &[],
        &["cli::install::impostors::an_impostor_that_is_installed"],
    ),
    (
        "pinned_signers",
        &[],
        &["unit:plan::tests::whatever_else_changes"],
    ),
    (
        "pinned_workflows",
        &[],
        &["unit:workflow::tests::no_branch"],
    ),
    (
        "workflow_refs",
        &[],
        &[
            "unit:trust::tests::a_pattern_of_tags",
            "cli::signatures::workflows::an_entry_for_every",
        ],
    ),
    ("downgrades", &[], &["unit:plan::tests::a_signed_version"]),
    (
        "signing_times",
        &[],
        &[
            "unit:plan::tests::without_a_version",
            "cli::signatures::a_server_cannot_bring_back_what_was_signed",
        ],
    ),
    (
        "larger_ceilings",
        &[],
        &["cli::install::updates::a_larger_ceiling"],
    ),
    ("cluster_attempt", &[], &["unit:simulation::some_"]),
    ("cluster_cancel", &[], &["unit:simulation::some_"]),
    ("cluster_claims", &[], &["unit:simulation::some_"]),
    ("cluster_deadline", &[], &["unit:simulation::some_"]),
    ("cluster_done", &[], &["unit:simulation::some_"]),
    ("cluster_effects", &[], &["unit:simulation::some_"]),
    ("cluster_epoch", &[], &["unit:simulation::some_"]),
    ("cluster_holder", &[], &["unit:simulation::some_"]),
    ("cluster_late", &[], &["unit:simulation::some_"]),
    ("cluster_lease", &[], &["unit:simulation::some_"]),
    ("cluster_lost", &[], &["unit:simulation::some_"]),
    ("cluster_publish", &[], &["unit:simulation::some_"]),
    ("cluster_question", &[], &["unit:simulation::some_"]),
    ("cluster_queued", &[], &["unit:simulation::some_"]),
    ("cluster_request", &[], &["unit:simulation::some_"]),
    ("cluster_silence", &[], &["unit:simulation::some_"]),
    ("cluster_unknown", &[], &["unit:simulation::some_"]),
    ("cluster_waiting", &[], &["unit:simulation::some_"]),
];

/// A mutant that hangs for this time counts as noticed.
const PATIENCE: Duration = Duration::from_secs(90);

/// How many mutants run at once, one test each: as many tests as run together while every guard stands, so that none
/// fails for being slower.
const AT_ONCE: usize = 2;

#[test]
fn each_guard_that_is_missing_is_noticed() {
    // A test that fails without a mutant shows nothing.
    let chosen = std::env::var("TOOLCELL_MUTANTS").ok();
    let chosen = |name: &str| {
        chosen
            .as_ref()
            .is_none_or(|chosen| chosen.split(',').any(|one| one == name))
    };
    let mut attacks: Vec<&str> = Vec::new();
    let mut tests: Vec<&str> = Vec::new();
    for (_, with, by) in MUTANTS.iter().filter(|(name, ..)| chosen(name)) {
        attacks.extend(*with);
        tests.extend(*by);
    }
    attacks.dedup();
    tests.dedup();
    assert!(
        passes(None, &attacks, &tests),
        "something fails although every guard stands"
    );
    let next = AtomicUsize::new(0);
    let missed = Mutex::new(Vec::new());
    println!("{:<22} {:<9} noticed by", "guard", "noticed");
    let left: Vec<_> = MUTANTS.iter().filter(|(name, ..)| chosen(name)).collect();
    let work = || {
        while let Some((name, with, by)) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            let noticed = !passes(Some(name), with, by);
            println!(
                "{name:<22} {:<9} {}",
                if noticed { "yes" } else { "NO" },
                [*with, *by].concat().join(" ")
            );
            if !noticed {
                missed.lock().unwrap().push(*name);
            }
        }
    };
    // Most of a run is one process that waits for another.
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(
        missed.is_empty(),
        "nothing notices that these guards are missing: {missed:?}"
    );
}

/// Checks that the table contains every guard in the code.
#[test]
fn each_guard_has_a_mutant() {
    let mut named = Vec::new();
    for file in crate::structure::sources() {
        let text = std::fs::read_to_string(file).unwrap();
        // `fence!` is the cluster's `guard!`, which its simulation can leave out too.
        for switch in ["guard!(\"", "fence!(\""] {
            named.extend(
                text.split(switch)
                    .skip(1)
                    .map(|rest| rest.split('"').next().unwrap().to_owned()),
            );
        }
    }
    named.sort();
    named.dedup();
    let mut known: Vec<String> = MUTANTS
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    known.sort();
    assert_eq!(named, known);
}

/// Runs attacks and tests, with `mutant` left out. Returns whether all pass.
fn passes(mutant: Option<&str>, attacks: &[&str], tests: &[&str]) -> bool {
    let run = |attacks: Option<String>, filters: &[&str], unit: bool| {
        let mut command = if unit {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap());
            cargo.args([
                "test",
                "--quiet",
                "--features",
                "toolcell-cli/mutants",
                "--workspace",
                "--lib",
                "--bins",
                "--",
            ]);
            cargo
        } else {
            Command::new(std::env::current_exe().unwrap())
        };
        command
            .args(filters)
            .arg(if mutant.is_some() {
                "--test-threads=1".to_owned()
            } else {
                format!("--test-threads={AT_ONCE}")
            })
            .stdin(Stdio::null());
        command.env("TOOLCELL_ATTACK_WATCHDOG_SECONDS", "15");
        if let Some(mutant) = mutant {
            // The failures are expected, and verbose.
            command
                .env("TOOLCELL_MUTANT", mutant)
                .stdout(Stdio::null())
                .stderr(Stdio::null());
        }
        if let Some(attacks) = attacks {
            command.env("TOOLCELL_ATTACKS", attacks);
        }
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.success(),
                None if mutant.is_some() && begun.elapsed() > PATIENCE => {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    return false;
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    };
    let first_set = ["hostile::the_first_set_ends_as_its_table_says", "--ignored"];
    let units: Vec<&str> = tests
        .iter()
        .filter_map(|test| test.strip_prefix("unit:"))
        .collect();
    let tests: Vec<&str> = tests
        .iter()
        .copied()
        .filter(|test| !test.starts_with("unit:"))
        .collect();
    (attacks.is_empty() || run(Some(attacks.join(",")), &first_set, false))
        && (tests.is_empty() || run(None, &tests, false))
        && (units.is_empty() || run(None, &units, true))
}
