//! Plain functions that return streams and futures.

wit_bindgen::generate!({
    inline: "
        package test:streams;
        interface tools {
            record pair { a: u8 }
            count: async func(to: u32) -> stream<u32>;
            words: async func() -> stream<string>;
            bytes: async func(count: u32) -> stream<u8>;
            later: async func() -> future<string>;
            sum: async func(a: u32, b: u32) -> u32;
            flood: async func() -> stream<string>;
            never: async func() -> future<u32>;
            pairs: async func() -> stream<pair>;
        }
        world streams { export tools; }
    ",
});

use exports::test::streams::tools::{Guest, Pair};
use wit_bindgen::rt::async_support::{FutureReader, StreamReader};
use wit_bindgen::spawn_local;

struct Streams;

export!(Streams);

impl Guest for Streams {
    async fn count(to: u32) -> StreamReader<u32> {
        let (mut send, receive) = wit_stream::new();
        spawn_local(async move {
            send.write_all((0..to).collect()).await;
        });
        receive
    }

    async fn words() -> StreamReader<String> {
        let (mut send, receive) = wit_stream::new();
        spawn_local(async move {
            for word in ["one", "two"] {
                send.write_all(vec![word.to_owned()]).await;
            }
        });
        receive
    }

    async fn bytes(count: u32) -> StreamReader<u8> {
        let (mut send, receive) = wit_stream::new();
        spawn_local(async move {
            send.write_all(vec![b'x'; count as usize]).await;
        });
        receive
    }

    async fn later() -> FutureReader<String> {
        let (send, receive) = wit_future::new(String::new);
        spawn_local(async move {
            let _ = send.write("at last".to_owned()).await;
        });
        receive
    }

    async fn sum(a: u32, b: u32) -> u32 {
        a + b
    }

    async fn flood() -> StreamReader<String> {
        let (mut send, receive) = wit_stream::new();
        spawn_local(async move {
            while send
                .write_all(vec!["x".repeat(1 << 16); 16])
                .await
                .is_empty()
            {}
        });
        receive
    }

    async fn never() -> FutureReader<u32> {
        let (send, receive) = wit_future::new(|| 0);
        std::mem::forget(send);
        receive
    }

    async fn pairs() -> StreamReader<Pair> {
        let (_, receive) = wit_stream::new();
        receive
    }
}
