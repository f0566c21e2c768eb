//! Tools for ACT, made with its SDK: what toolcell must translate, and what it must stop.

use act_sdk::prelude::*;

#[act_component]
mod component {
    use std::collections::BTreeMap;
    use std::hint::black_box;
    use std::time::Duration;

    use super::*;

    #[act_tool(description = "Says hello", read_only, idempotent)]
    fn hello(name: String) -> ActResult<String> {
        Ok(format!("Hello, {name}!"))
    }

    #[act_tool(
        description = "Counts the bytes, and returns them twice",
        timeout_ms = 20_000
    )]
    fn twice(data: Bytes) -> ActResult<BTreeMap<String, Bytes>> {
        let twice = [data.0.clone(), data.0].concat();
        Ok(BTreeMap::from([("twice".to_owned(), Bytes(twice))]))
    }

    #[act_tool(description = "Draws a picture of one pixel")]
    fn picture() -> ActResult<Content> {
        Ok(Content("image/png", b"\x89PNG".to_vec()))
    }

    #[act_tool(description = "Reads a file")]
    fn read(path: String) -> ActResult<String> {
        std::fs::read_to_string(&path)
            .map_err(|error| ActError::new("std:capability-denied", error.to_string()))
    }

    #[act_tool(description = "Writes a file", destructive)]
    fn write(path: String, text: String) -> ActResult<String> {
        match std::fs::write(&path, text) {
            Ok(()) => Ok("written".to_owned()),
            Err(error) => Err(ActError::new("std:capability-denied", error.to_string())),
        }
    }

    #[act_tool(description = "Fails with an error of this kind")]
    fn fail(kind: String, message: String) -> ActResult<String> {
        Err(ActError::new(kind, message))
    }

    #[act_tool(description = "Sends a stream of texts", streaming)]
    fn count(events: u32, bytes: u32, ctx: &mut ActContext) -> ActResult<String> {
        for number in 1..=events {
            ctx.send_text(format!("{number:>width$}", width = bytes as usize));
        }
        Ok("end".to_owned())
    }

    #[act_tool(description = "Reports progress, sends a text, and fails", streaming)]
    fn half(ctx: &mut ActContext) -> ActResult<String> {
        for done in 1..=2_u32 {
            let metadata = [("std:progress", done), ("std:progress-total", 4)];
            let metadata =
                metadata.map(|(key, value)| (key.to_owned(), act_sdk::cbor::to_cbor(&value)));
            ctx.send_content(
                b"working".to_vec(),
                Some("text/plain".to_owned()),
                metadata.into(),
            );
        }
        ctx.send_text("half of it");
        Err(ActError::new("acme:tired", "that is all"))
    }

    #[act_tool(description = "Never ends")]
    fn spin() -> ActResult<String> {
        loop {
            black_box(0);
        }
    }

    #[act_tool(description = "Never ends, and lets other tasks of the component run")]
    async fn spin_politely() -> ActResult<String> {
        loop {
            act_sdk::__private::wit_bindgen::yield_async().await;
        }
    }

    #[act_tool(description = "Answers, and goes on computing")]
    async fn spin_later() -> ActResult<String> {
        act_sdk::spawn_local(async {
            loop {
                black_box(0);
                act_sdk::__private::wit_bindgen::yield_async().await;
            }
        });
        Ok("answered".to_owned())
    }

    #[act_tool(
        description = "Sends a stream, and computes for ever instead of ending it",
        streaming
    )]
    async fn spin_in_a_stream(ctx: &mut ActContext) -> ActResult<String> {
        ctx.send_text("begun");
        loop {
            act_sdk::__private::wit_bindgen::yield_async().await;
        }
    }

    #[act_tool(description = "Waits for what never comes")]
    async fn wait() -> ActResult<String> {
        std::future::pending::<()>().await;
        Ok(String::new())
    }

    #[act_tool(description = "Sleeps for ten minutes")]
    fn sleep() -> ActResult<String> {
        std::thread::sleep(Duration::from_secs(600));
        Ok("awake".to_owned())
    }

    #[act_tool(description = "Takes memory")]
    fn memory(mib: u32) -> ActResult<String> {
        let taken: Vec<Vec<u8>> = (0..mib).map(|_| vec![1; 1 << 20]).collect();
        Ok(format!("{} MiB", black_box(taken).len()))
    }

    #[act_tool(description = "Makes streams, and keeps them")]
    fn streams(count: u32) -> ActResult<String> {
        for _ in 0..count {
            std::mem::forget(wit_stream::new::<act::tools::types::ToolEvent>());
        }
        Ok(format!("{count} streams"))
    }

    #[act_tool(description = "Panics")]
    fn panic() -> ActResult<String> {
        panic!("as asked")
    }
}
