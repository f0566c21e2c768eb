use toolcell_spec::{
    ExecutionProfile, Extra, Finding, PermissionProfile, ToolDeclaration, ToolInterface, Toolkit,
};

pub(super) struct ToolRecords<'a> {
    pub(super) interface: Option<&'a ToolInterface>,
    pub(super) execution_profile: Option<&'a ExecutionProfile>,
    pub(super) permission_profile: Option<&'a PermissionProfile>,
    /// Demands that this host cannot meet.
    pub(super) gaps: Vec<Finding>,
    /// `true` if a tool of the toolkit wants an exclusive context.
    pub(super) has_context: bool,
    places: Vec<String>,
    execution_place: String,
}

impl<'a> ToolRecords<'a> {
    pub(super) fn from_toolkit(
        at: usize,
        declaration: &ToolDeclaration,
        toolkit: &'a Toolkit,
    ) -> Self {
        let interface = find(
            &toolkit.interfaces,
            declaration.interface_ref.as_ref(),
            |i| &i.interface_id,
        );
        let execution = declaration.execution_profile_ref.as_ref();
        let execution = find(&toolkit.execution_profiles, execution, |p| {
            &p.execution_profile_id
        });
        let permission = declaration.permission_profile_ref.as_ref();
        let permission = find(&toolkit.permission_profiles, permission, |p| {
            &p.permission_profile_id
        });
        let place = |list: &str, at: usize| format!("/{list}/{at}");
        let mut places = vec![place("declarations", at)];
        places.extend(interface.map(|(at, _)| place("interfaces", at)));
        places.extend(execution.map(|(at, _)| place("execution_profiles", at)));
        places.extend(permission.map(|(at, _)| place("permission_profiles", at)));
        let has_context =
            |interface: &ToolInterface| interface.requires_exclusive_context == Some(true);
        let mut records = Self {
            gaps: Vec::new(),
            has_context: toolkit.interfaces.iter().any(has_context),
            interface: interface.map(|(_, record)| record),
            execution_profile: execution.map(|(_, record)| record),
            permission_profile: permission.map(|(_, record)| record),
            places,
            execution_place: execution
                .map(|(at, _)| place("execution_profiles", at))
                .unwrap_or_default(),
        };
        records.gaps = toolkit
            .gaps
            .iter()
            .filter(|gap| records.hold(gap))
            .cloned()
            .collect();
        records
    }

    pub(super) fn hold(&self, note: &Finding) -> bool {
        let lists = [
            "/declarations/",
            "/interfaces/",
            "/execution_profiles/",
            "/permission_profiles/",
        ];
        let of = |place: &String| {
            note.path
                .strip_prefix(place)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.places.iter().any(of) || !lists.iter().any(|list| note.path.starts_with(list))
    }

    pub(super) fn overruled(
        &self,
        asked: &ExecutionProfile,
        written: &ExecutionProfile,
    ) -> Vec<Finding> {
        if self.execution_place.is_empty() {
            return Vec::new();
        }
        let fields = |profile: &ExecutionProfile| match serde_json::to_value(profile) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => Extra::new(),
        };
        let asked = fields(asked);
        let written = fields(written);
        let differs = asked.iter().filter_map(|(name, asked)| {
            let other = written.get(name).filter(|other| *other != asked)?;
            let message = format!("has no effect: the host writes what it sees, here {other}");
            Some(Finding::new(
                &format!("{}/{name}", self.execution_place),
                &message,
            ))
        });
        differs.collect()
    }
}

fn find<'a, T>(
    records: &'a [T],
    id: Option<&String>,
    of: fn(&T) -> &String,
) -> Option<(usize, &'a T)> {
    let id = id?;
    records
        .iter()
        .enumerate()
        .find(|(_, record)| of(record) == id)
}
