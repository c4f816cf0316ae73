import { CLI_CODES } from './cli-codes.ts';
import type { ErrorCodeInfo } from './code-info.ts';
import { SPEC_CODES } from './spec-codes.ts';

/**
 * Every code that an author, an operator or a client can meet. A code is a contract: it is the type of
 * an ApplicationFailure, the reason that the command line prints and a heading of docs/errors.md.
 */
export const ERROR_CODES = {
  ...SPEC_CODES,
  'stage/exit-nonzero': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The command of a stage ended with a non-zero exit code or by a signal.',
    remedy: "Read the stage's last lines with `voidbox logs RUN`, mend the command, run again.",
  },
  'stage/timeout': {
    kind: 'outcome',
    retry: 'never',
    summary: "The command of a stage ran past the stage's deadline and was killed.",
    remedy: 'Raise `timeout_secs` of the stage or make it shorter.',
  },
  'stage/output-limit': {
    kind: 'outcome',
    retry: 'never',
    summary: 'A stage wrote more output than it may; it was killed, the first and last MiB are kept.',
    remedy: 'Write large data to files and pass them by `outputs`, or raise `max_output_mb`.',
  },
  'stage/output-missing': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The command succeeded but did not leave an output that the spec names.',
    remedy: 'Make the command write the named path, or take it out of the spec.',
  },
  'stage/cannot-start': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The program of a stage is not in the guest or may not be executed.',
    remedy: 'Use a program of the guest image (a shell and the usual tools), or mount a folder that holds it.',
  },
  'stage/bad-output': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'What the stage left in an output is not what may leave a VM: a device, an absolute or outward link, too many entries.',
    remedy: 'Leave only regular files, folders and links that stay inside the output.',
  },
  'stage/mount-conflict': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'A stage changed entries of a writable mount that changed on the host too while its VM had them; the host keeps its own.',
    remedy:
      'Let nothing else write to the folder while the run works on it, or give each writer a folder of its own; then run again.',
  },
  'stage/mount-unwritable': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The host does not take what a stage left in a writable mount: no permission, a read-only or another file system, a name it cannot have.',
    remedy: 'Let the user that runs the worker write to the path in the message, or mount another folder.',
  },
  'stage/declined': {
    kind: 'outcome',
    retry: 'never',
    summary: 'A stage asked whether the run may go on, and the answer was no.',
    remedy: 'The message says why, where the answer did; run again when that has changed.',
  },
  'stage/cancelled': {
    kind: 'outcome',
    retry: 'never',
    summary: 'A stage was cancelled before it had a result.',
    remedy: 'Nothing, if the cancel was meant; else run again.',
  },
  'vm/boot-timeout': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'The guest agent did not answer in time after the VM was started, twice.',
    remedy: "Look at the console log named in the message; lower the machine's load; `voidbox doctor`.",
  },
  'vm/lost': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'A VM or its keeper died while a stage needed it.',
    remedy:
      'Nothing: the scope is tried again up to 3 times. If it goes on, look at the console log named in the message.',
  },
  'vm/protocol': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'What came out of the guest was not the protocol; the VM was killed.',
    remedy: 'If a stage does it each time, its code attacks the guest agent; otherwise report it with the console log.',
  },
  'vm/refused': {
    kind: 'world',
    retry: 'never',
    summary:
      'The guest refused what its VM was launched with, such as a mount on a folder of its system. Another VM would refuse it too.',
    remedy: 'Change what the message names, in most cases the `guest` path of a mount.',
  },
  'vm/guest-error': {
    kind: 'world',
    retry: 'never',
    summary:
      'The guest could not do what was asked of its files: its disk is full, or a path leads through something that is no folder.',
    remedy: 'Raise `disk_mb` of the sandbox, or mend the path named in the message.',
  },
  'vm/no-capacity': {
    kind: 'world',
    retry: 'temporal',
    summary:
      'The host has no free memory for another VM now, or its disk is nearly full (below 512 MiB, or 5 % of a small one).',
    remedy: 'Wait, lower `memory_mb`, make room on the disk, or add a host.',
  },
  'vm/too-large': {
    kind: 'world',
    retry: 'never',
    summary: 'A stage asks for more memory than the host has in all.',
    remedy: 'Lower `memory_mb` of the sandbox, or run on a larger host.',
  },
  'host/not-ready': {
    kind: 'world',
    retry: 'never',
    summary: 'A piece that real VMs need is missing on the host: kernel, QEMU, jail, agent.',
    remedy: 'Run `voidbox doctor`; it prints the line that mends it.',
  },
  'host/isolation': {
    kind: 'world',
    retry: 'never',
    summary: 'The host cannot give the isolation that the spec demands.',
    remedy: 'Run `voidbox doctor` for what is missing, or lower `isolation` in the spec.',
  },
  'host/variable-missing': {
    kind: 'world',
    retry: 'never',
    summary: 'A stage reads a variable of the host that was not handed over.',
    remedy: 'Set the variable where `voidbox run` is started.',
  },
  'host/elsewhere': {
    kind: 'world',
    retry: 'temporal',
    summary:
      'A worker was handed work of a run that another host admitted, or of a VM that is on another host; it gives the work back.',
    remedy: "Nothing needs to be done while the run's host is up; otherwise start its worker.",
  },
  'host/disk-full': {
    kind: 'world',
    retry: 'never',
    summary:
      'The disk of the host was full for longer than a VM waits for room (an hour, unless `VOIDBOX_DISK_FULL_LIMIT_MS` says otherwise).',
    remedy:
      'Make room on the disk of the state folder, which the message names (`voidbox prune` removes old runs), then run again.',
  },
  'host/unreachable': {
    kind: 'world',
    retry: 'never',
    summary: "No worker of the run's host finished a stage in time; the host has been away for days.",
    remedy: 'Start the worker of that host, or run again elsewhere.',
  },
  'attempt/detached': {
    kind: 'world',
    retry: 'temporal',
    summary: 'An attempt let go of its work, because its worker stops or the server has given the attempt up.',
    remedy: 'Nothing: the work goes on in its VM, and the next attempt takes it up.',
  },
  'fence/stale': {
    kind: 'world',
    retry: 'temporal',
    summary: 'A newer driver has taken over; what this one writes is refused.',
    remedy: 'Nothing: the newer attempt goes on.',
  },
  'admit/invalid': {
    kind: 'world',
    retry: 'never',
    summary: 'What was handed to `voidboxRun` is not a spec or plan that can run.',
    remedy: 'Mend the diagnostics in the message.',
  },
  'admit/mount-refused': {
    kind: 'world',
    retry: 'never',
    summary: 'A mount names a host folder that is not there or that this worker does not allow.',
    remedy:
      "Make the folder on the worker's host and start the worker with it allowed (`--allow-mounts`); without a server of one's own, let it lie below the spec's folder.",
  },
  'call/refused': {
    kind: 'world',
    retry: 'never',
    summary:
      "An activity was called with something that the run's records do not confirm: a run, stage, VM, lease, event or outcome that its workflow cannot have named.",
    remedy:
      'Start runs as workflows `voidboxRun` and leave their activities to them. If a run of your own met it, its records are damaged or another build carried it on: start it again.',
  },
  'run/ended': {
    kind: 'world',
    retry: 'never',
    summary:
      'More was asked for a run whose last event is written, by a reset for example: a run that has ended stays as it is.',
    remedy: 'Start a new run.',
  },
  'run/history-full': {
    kind: 'world',
    retry: 'never',
    summary:
      "A run's history came near the size or length at which Temporal ends a workflow without asking it; the run stopped what ran and ended itself.",
    remedy:
      'Split the spec into several runs, allow fewer attempts with `retry`, or pass fewer outputs between stages.',
  },
  'run/terminated': {
    kind: 'world',
    retry: 'never',
    summary:
      "The Temporal server ended a run's workflow without asking it: an operator terminated it, a limit or a timeout of the server was reached, or the server does not know it any more.",
    remedy: 'Read the reason in the message; start a new run.',
  },
  'run/id-taken': {
    kind: 'world',
    retry: 'never',
    summary:
      'A second workflow was started with the id of a run that has its records here already; they are neither handed out nor overwritten.',
    remedy:
      'Start the run with another workflow id (id reuse policy RejectDuplicate says so at the start), or reset the first one.',
  },
  'mount/unusable': {
    kind: 'world',
    retry: 'never',
    summary:
      'A writable mount cannot be captured: an entry cannot be read, or the folder is larger than its VM can hold.',
    remedy: 'Do what the message says: let the worker read the entry, raise `disk_mb`, or mount a smaller folder.',
  },
  'session/failed': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'A session of a step machine ended without its result: a limit was reached, or its skill made an impossible move.',
    remedy: 'Read the message and `voidbox session history SESSION`; mend the skill, start a new session.',
  },
  'session/refused': {
    kind: 'outcome',
    retry: 'never',
    summary: 'An answer for a session was not taken: another step or turn is due, or the session is over.',
    remedy: 'See what is due with `voidbox session status SESSION`.',
  },
  'session/foreign': {
    kind: 'world',
    retry: 'never',
    summary:
      'Work of a session was asked for by something else than its own workflow, or for a session that this host did not open, or with other facts than it was opened with; nothing was done.',
    remedy:
      'Sessions are moved by `voidbox session` and the update `advance`. Where nobody of yours asked, somebody else reaches your Temporal server: see docs/sessions.md, "Who may ask".',
  },
  'skill/unknown': {
    kind: 'world',
    retry: 'never',
    summary: 'No skill of that name, version or code is loaded by the worker.',
    remedy:
      'Load it with `voidbox up --skills DIR`, or `voidbox worker --skills DIR`; the message lists what is loaded.',
  },
  'skill/ambiguous': {
    kind: 'world',
    retry: 'never',
    summary:
      'Different codes are loaded under one name of a skill, and the start of a session does not say which it means.',
    remedy:
      'Choose one by its hash: `voidbox session start NAME --code HASH`. Or load one of them alone: `voidbox up --skills PATH…`.',
  },
  'skill/not-found': {
    kind: 'world',
    retry: 'never',
    summary: 'No source of a skill is where one was named.',
    remedy: "Name the skill's entry (a TypeScript or JavaScript file), or its folder with a `skill.ts`.",
  },
  'skill/params': {
    kind: 'world',
    retry: 'never',
    summary: 'The params of a session do not fit what the skill declares.',
    remedy: 'Mend what the message names and start again.',
  },
  'skill/unusable': {
    kind: 'world',
    retry: 'never',
    summary: 'The code of a skill cannot be bundled or loaded, or its definition has mistakes.',
    remedy: 'Mend what the message names; `voidbox session start` reads the files again.',
  },
  'skill/not-compliant': {
    kind: 'world',
    retry: 'never',
    summary:
      'A skill that is to be built cannot be one of agentskills.io: its name, description or version is missing or not allowed.',
    remedy: 'Change what the message names in the `skill({ … })` of the entry, or the folder after `-o`.',
  },
  'skill/lint': {
    kind: 'world',
    retry: 'never',
    summary: 'Lint found errors in a skill that is to be built; nothing was written.',
    remedy: 'Mend what is listed above the message.',
  },
  'skill/output-taken': {
    kind: 'world',
    retry: 'never',
    summary: 'The folder that a skill is to be built into holds something else, or cannot be written.',
    remedy:
      'Build into another folder; into one that holds something else with `--force`, which replaces what a build writes and leaves everything else.',
  },
  'skill/bun': {
    kind: 'world',
    retry: 'never',
    summary: 'bun, which makes executables of skills, is missing or failed.',
    remedy: 'Install it from https://bun.sh and put it on the PATH, or build with `--mode node`, which needs none.',
  },
  'skill/variable-missing': {
    kind: 'world',
    retry: 'never',
    summary:
      'A variable that a skill declares in `env` is not set where its session is started, or was not handed over.',
    remedy: 'Set the variable where the session is started, or, on a server of your own, where its worker is.',
  },
  'skill/crashed': {
    kind: 'world',
    retry: 'never',
    summary:
      'A callback of a skill ended its process or did not come back in time; that process was ended, and nothing else.',
    remedy: "Mend the callback. Long work belongs into a step's action, with `timeoutMs`.",
  },
  'skill/away': {
    kind: 'world',
    retry: 'temporal',
    summary: 'The code that a session needs is not on this worker at present.',
    remedy: 'Load that code again, or declare a migration in its successor; the session goes on by itself.',
  },
  'store/io': {
    kind: 'world',
    retry: 'temporal',
    summary: 'The event or artifact store could not be read or written.',
    remedy: 'Look at disk space and permissions of the state folder named in the message.',
  },
  'store/damaged': {
    kind: 'world',
    retry: 'never',
    summary:
      'What the state folder holds of a run is not what was written there: events or records are missing, swapped or changed.',
    remedy:
      'Restore the file that the message names from a copy, or put the run out of the way with `voidbox set-aside RUN`; other runs are not touched.',
  },
  'internal/bug': {
    kind: 'world',
    retry: 'never',
    summary: 'Voidbox itself did something wrong.',
    remedy: "Report it with the message and the worker's log.",
  },
  'run/too-large': {
    kind: 'world',
    retry: 'never',
    summary: 'A value is larger than what a run may carry.',
    remedy: 'Pass large data as files.',
  },
  ...CLI_CODES,
} as const satisfies Record<string, ErrorCodeInfo>;

export type ErrorCode = keyof typeof ERROR_CODES;
