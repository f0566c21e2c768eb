//! A command of WASI 0.3: its first argument says what it does.

use std::future::IntoFuture;

use futures::future::join_all;
use futures::join;
use wasip3::cli::{environment, exit, stderr, stdin, stdout};
use wasip3::clocks::monotonic_clock;
use wasip3::filesystem::preopens;
use wasip3::filesystem::types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags};
use wasip3::random::random;
use wasip3::sockets::types::{IpAddressFamily, TcpSocket};
use wasip3::wit_stream;

wasip3::cli::command::export!(Concurrent);

struct Concurrent;

const CHUNK: usize = 65_536;

impl wasip3::exports::cli::run::Guest for Concurrent {
    async fn run() -> Result<(), ()> {
        let arguments = environment::get_arguments();
        let argument = |at: usize| arguments.get(at).cloned().unwrap_or_default();
        match argument(1).as_str() {
            "cat" => {
                let (input, _) = stdin::read_via_stream();
                let _ = stdout::write_via_stream(input).await;
                Ok(())
            }
            "arguments" => print(&arguments.join(" ")).await,
            "complain" => {
                let (mut send, receive) = wit_stream::new();
                let (_, _) = join!(
                    stderr::write_via_stream(receive).into_future(),
                    async move {
                        send.write_all(b"no such thing".to_vec()).await;
                    }
                );
                exit::exit_with_code(3);
                Ok(())
            }
            "read" => {
                let file = open(&argument(2), OpenFlags::empty(), DescriptorFlags::READ).await?;
                let (data, end) = file.read_via_stream(0);
                let _ = stdout::write_via_stream(data).await;
                end.await.map_err(drop)
            }
            "write" => write(&argument(2), argument(3).into_bytes()).await,
            "list" => list(&argument(2)).await,
            "swarm" => {
                let count = argument(2).parse().unwrap_or(0);
                let (folder, path) = folder_of(&argument(3)).ok_or(())?;
                let looks = || {
                    let look = |_| folder.stat_at(PathFlags::empty(), path.clone());
                    join_all((0..count).map(look))
                };
                let mut failed = 0;
                for _ in 0..20 {
                    failed += looks().await.iter().filter(|look| look.is_err()).count();
                }
                print(&format!("{failed} failed")).await
            }
            "two" => {
                let (one, other) =
                    join!(write("one", b"1".to_vec()), write("other", b"2".to_vec()));
                one.and(other)
            }
            "fill" => {
                let size = argument(3).parse().unwrap_or(0);
                write(&argument(2), vec![b'x'; size]).await
            }
            "flood" => loop {
                print(&"x".repeat(CHUNK)).await?;
            },
            "wait" => {
                monotonic_clock::wait_for(argument(2).parse().unwrap_or(0)).await;
                print("waited").await
            }
            "spin" => loop {
                std::hint::spin_loop();
            },
            "random" => print(&random::get_random_u64().to_string()).await,
            "socket" => {
                print(&format!(
                    "{:?}",
                    TcpSocket::create(IpAddressFamily::Ipv4).err()
                ))
                .await
            }
            "fail" => Err(()),
            _ => panic!("no such command"),
        }
    }
}

async fn print(text: &str) -> Result<(), ()> {
    let (mut send, receive) = wit_stream::new();
    let bytes = text.as_bytes().to_vec();
    let (printed, left) = join!(
        stdout::write_via_stream(receive).into_future(),
        async move { send.write_all(bytes).await }
    );
    if left.is_empty() {
        printed.map_err(drop)
    } else {
        Err(())
    }
}

/// A path below the folder that is named by its beginning, or below the working directory.
fn folder_of(path: &str) -> Option<(Descriptor, String)> {
    let mut folders = preopens::get_directories();
    let at = folders.iter().position(|(_, name)| {
        path.starts_with(&format!("{name}/")) || (name == "." && !path.starts_with('/'))
    })?;
    let (folder, name) = folders.swap_remove(at);
    let rest = path.strip_prefix(&format!("{name}/")).unwrap_or(path);
    Some((folder, rest.to_owned()))
}

async fn open(path: &str, open: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, ()> {
    let (folder, path) = folder_of(path).ok_or(())?;
    let opened = folder
        .open_at(PathFlags::SYMLINK_FOLLOW, path, open, flags)
        .await;
    if let Err(error) = &opened {
        print(&format!("{error:?}")).await?;
    }
    opened.map_err(drop)
}

async fn write(path: &str, bytes: Vec<u8>) -> Result<(), ()> {
    let made = OpenFlags::CREATE | OpenFlags::TRUNCATE;
    let file = open(path, made, DescriptorFlags::WRITE).await?;
    let (mut send, receive) = wit_stream::new();
    let (written, left) = join!(
        file.write_via_stream(receive, 0).into_future(),
        async move { send.write_all(bytes).await }
    );
    if left.is_empty() {
        written.map_err(drop)
    } else {
        Err(())
    }
}

async fn list(path: &str) -> Result<(), ()> {
    let folder = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ).await?;
    let (entries, end) = folder.read_directory();
    let mut names: Vec<String> = entries
        .collect()
        .await
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    print(&names.join(" ")).await?;
    end.await.map_err(drop)
}
