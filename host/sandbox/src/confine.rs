//! Confines the compiler's process: a component that takes it over can only compute, answer on standard output, and
//! end.

#[cfg(target_os = "linux")]
pub(super) use linux::{die_with, leave_no_dump, only_compute};

#[cfg(not(target_os = "linux"))]
pub(super) fn die_with(_parent: u32) -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave_no_dump() -> anyhow::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn only_compute() -> anyhow::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeMap;

    use anyhow::Context;
    use rustix::process::{
        DumpableBehavior, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal,
    };
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
        SeccompRule,
    };

    /// Otherwise a compilation would run to its limit after its host was killed.
    pub(crate) fn die_with(parent: u32) -> anyhow::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))
            .context("cannot ask for a signal at the parent's end")?;
        // The parent may have ended before the request, and then nothing sends the signal.
        let living = getppid().and_then(|living| u32::try_from(living.as_raw_nonzero().get()).ok());
        anyhow::ensure!(
            living == Some(parent),
            "the host that asked for a compilation has ended"
        );
        Ok(())
    }

    /// The size limit does not hold where dumps are piped to a program, which would get gigabytes of a component that
    /// used up its time.
    pub(crate) fn leave_no_dump() -> anyhow::Result<()> {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot forbid core dumps")
    }

    /// Cranelift and the allocator need them to compute, and to read, write and exit. `tgkill` is allowed as well: see
    /// [`rules`].
    const NEEDED: &[libc::c_long] = &[
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_close,
        libc::SYS_brk,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_clock_gettime,
        libc::SYS_getrandom,
        libc::SYS_getpid,
        libc::SYS_gettid,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_sigaltstack,
        libc::SYS_sched_yield,
        libc::SYS_exit,
        libc::SYS_exit_group,
    ];

    /// `abort` sends its signal with `tgkill`, which could kill any process of this user, so its first argument must be
    /// this process's PID.
    fn rules() -> anyhow::Result<BTreeMap<i64, Vec<SeccompRule>>> {
        let own = u64::from(std::process::id());
        let only_own = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)?;
        let signals = if guard!("compile_signals") {
            vec![SeccompRule::new(vec![only_own])?]
        } else {
            Vec::new()
        };
        let mut rules: BTreeMap<_, _> = NEEDED.iter().map(|call| (*call, Vec::new())).collect();
        rules.insert(libc::SYS_tgkill, signals);
        Ok(rules)
    }

    /// Applies to all threads: no file can be opened, no process or thread started, no socket created. A refused call
    /// fails with `EPERM`, because allocators and the C library try calls that they can do without.
    pub(crate) fn only_compute() -> anyhow::Result<()> {
        seccompiler::apply_filter_all_threads(&filter()?).context("cannot put the filter in place")
    }

    /// Does what [`only_compute`] does, to this thread alone.
    #[cfg(test)]
    pub(crate) fn only_compute_here() -> anyhow::Result<()> {
        seccompiler::apply_filter(&filter()?).context("cannot put the filter in place")
    }

    fn filter() -> anyhow::Result<BpfProgram> {
        let rules = rules().context("cannot list the allowed system calls")?;
        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let machine = std::env::consts::ARCH
            .try_into()
            .context("cannot find the filter's instruction set")?;
        let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, machine)
            .context("cannot create a filter")?;
        filter.try_into().context("cannot compile the filter")
    }

    #[cfg(test)]
    mod tests {
        use std::process::{Command, Stdio};

        /// `true` if a signal could be sent to the first thread of `process`.
        #[allow(unsafe_code, reason = "no safe function makes this system call")]
        fn reaches(process: u32) -> bool {
            // SAFETY: the system call takes numbers only, and signal 0 is never delivered.
            unsafe { libc::syscall(libc::SYS_tgkill, process, process, 0) == 0 }
        }

        #[test]
        fn under_the_filter_a_process_signals_itself_and_no_other() {
            let mut other = Command::new("sleep")
                .arg("60")
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let own = std::process::id();
            let id = other.id();
            // The filter applies to the thread that installs it, until that thread ends.
            let thread = std::thread::spawn(move || {
                let before = (reaches(own), reaches(id));
                super::only_compute_here().unwrap();
                (before, (reaches(own), reaches(id)))
            });
            let reached = thread.join();
            other.kill().unwrap();
            other.wait().unwrap();
            assert_eq!(reached.unwrap(), ((true, true), (true, false)));
        }
    }
}
