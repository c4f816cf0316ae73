import { AGENT_CODES } from './agent-codes.ts';
import { API_CODES } from './api-codes.ts';
import { CLI_CODES } from './cli-codes.ts';
import { DEPLOY_CODES } from './deploy-codes.ts';
import type { ErrorCodeInfo } from './code-info.ts';
import { QUEUE_CODES } from './queue-codes.ts';
import { SPEC_CODES } from './spec-codes.ts';
import { NOTIFY_CODES } from './notify-codes.ts';
import { SOURCE_CODES } from './source-codes.ts';
import { TRIGGER_CODES } from './trigger-codes.ts';
import { WORKSPACE_CODES } from './workspace-codes.ts';

/**
 * Every code that an author, an operator or a client can meet. A code is a contract: it is the type of
 * an ApplicationFailure, the reason that the command line prints and a heading of docs/reference/errors.md.
 */
export const ERROR_CODES = {
  ...SPEC_CODES,
  ...DEPLOY_CODES,
  'stage/exit-nonzero': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The command of a stage ended with a non-zero exit code or by a signal.',
    remedy: "Read the stage's last lines with `voidbox logs RUN`, fix the command and run again.",
  },
  'stage/out-of-memory': {
    kind: 'outcome',
    retry: 'never',
    summary: "The guest killed processes of a stage's command or agent because the VM's memory was full.",
    remedy: 'Raise `memory_mb` of the sandbox, or let its programs use less memory at a time.',
  },
  'stage/disk-full': {
    kind: 'outcome',
    retry: 'never',
    summary: "The disk of a stage's VM was full when its command failed, or when Voidbox wrote a file for it.",
    remedy: 'Raise `disk_mb` of the sandbox, or remove files that the stage does not need.',
  },
  'stage/timeout': {
    kind: 'outcome',
    retry: 'never',
    summary:
      "The command of a stage ran past the stage's deadline. It got SIGTERM, and SIGKILL 2 seconds later; its exit code does not count.",
    remedy: 'Raise `timeout_secs` of the stage or make the command faster.',
  },
  'stage/output-limit': {
    kind: 'outcome',
    retry: 'never',
    summary: 'A stage wrote more output than its limit allows. It was killed; the first and last MiB are kept.',
    remedy: 'Write large data to files and pass them with `outputs`, or raise `max_output_mb`.',
  },
  'stage/output-schema': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The output of a stage does not match its `output_schema`; the message names the first places.',
    remedy:
      'Correct the output of the stage, or the schema; [Schemas of outputs](spec.md#schemas-of-outputs) lists the limits.',
  },
  'stage/output-missing': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The command succeeded but did not leave an output that the spec names.',
    remedy: 'Make the command write that path, or remove the output from the spec.',
  },
  'stage/cannot-start': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The program of a stage is not in the guest, or is not executable.',
    remedy: 'Use a program of the guest image (a shell and the usual tools), or mount a folder that contains it.',
  },
  'stage/input-redacted': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The standard input of a stage is an output that was JSON until Voidbox replaced the value of a host variable in it with `[redacted]`.',
    remedy:
      'Print such a value within a string, or do not print it. A file of a named output (`outputs`, `inputs`) is not redacted.',
  },
  'stage/bad-output': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'An output contains entries that must not leave a VM (a device, a link to a place outside of the output, a file of another user), or too many entries.',
    remedy:
      'Leave only regular files, folders and links that stay inside the output. If the message has "Permission denied", the file belongs to another user of the VM: copy it with `cp`, and allow the copy with `chmod u+r`.',
  },
  'stage/mount-conflict': {
    kind: 'outcome',
    retry: 'never',
    summary: "A stage changed entries of a writable mount that also changed on the host; the host's versions are kept.",
    remedy: 'Let nothing else write to the folder during the run, or give each writer its own folder; then run again.',
  },
  'stage/mount-unwritable': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The host cannot store the changes of a stage in a writable mount: no permission, a read-only or different file system, or an invalid name.',
    remedy: "Give the worker's user write access to the path in the message, or mount another folder.",
  },
  'stage/items-failed': {
    kind: 'outcome',
    retry: 'never',
    summary: 'More items of a stage with `for_each` failed than its `allow_failures` allows.',
    remedy:
      'The message names the first failed items, and `voidbox status RUN` lists more. Read the lines of an item with `voidbox logs RUN --stage "STAGE[ITEM]"`.',
  },
  'stage/bad-items': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The output that `for_each` reads is not a JSON list, or has more than 10,000 items, 16 MiB or 200 levels. The message shows its beginning and the place that is not JSON. For a list within an item the limit may be lower; the message contains it.',
    remedy:
      'Let the stage print one JSON list within these limits, such as `["a", "b"]`; split a longer one over several stages.',
  },
  'stage/rejected': {
    kind: 'outcome',
    retry: 'never',
    summary: 'A person rejected an approval, or its deadline passed with `on_timeout: reject`.',
    remedy: 'Read the comment in the message, if there is one, solve its reason, and run again.',
  },
  'stage/no-answer': {
    kind: 'outcome',
    retry: 'never',
    summary: 'An approval had no answer before its `timeout`.',
    remedy: 'Run again and answer with `voidbox approve` or `voidbox reject`, or set a longer `timeout`.',
  },
  'stage/condition': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The condition (`when`) of a stage could not be decided: it reads a value that is absent, mixes types, or takes too long.',
    remedy:
      'Correct the condition as the message says; [Conditions](spec.md#conditions) lists the limits. Then run again.',
  },
  'stage/expression': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The value of an argument, a variable or a message of a stage could not be computed. Its expression reads a value that is absent, its result is not a text or is too large, or an output is not UTF-8 text.',
    remedy:
      'Correct the expression as the message says; [Outputs in arguments and variables](spec.md#outputs-in-arguments-and-variables) lists the limits. Then run again.',
  },
  'stage/wait-time': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The value of the expression in `until` of a wait is not a time with its offset from UTC, or is more than 400 days away.',
    remedy:
      'The message contains the value. Let the stage print a time such as 2026-12-01T09:00:00Z, or build one in the expression; see [Waits](spec.md#waits). Then run again.',
  },
  'part/failed': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'A stage of a part failed. The failure of the whole part is tolerated (`continue_on_error` next to `uses`).',
    remedy:
      'The message names the stage that failed: read its lines with `voidbox logs RUN --stage STAGE`, correct it, and run the part again with `voidbox retry RUN --from PART`.',
  },
  ...AGENT_CODES,
  ...WORKSPACE_CODES,
  'loop/limit': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The condition (`until`) of a loop did not hold after its last visit.',
    remedy:
      'Read the output of the last visit (`voidbox logs`), raise `max_visits`, or write `on_limit: pass` if the last output is acceptable. See [Loops](spec.md#loops).',
  },
  'stage/cancelled': {
    kind: 'outcome',
    retry: 'never',
    summary: 'Voidbox cancelled a stage before its command had ended; the exit code of the command does not count.',
    remedy: 'Nothing to do if you cancelled it; otherwise run again.',
  },
  'vm/boot-timeout': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'The guest agent did not answer in time after the VM was started, twice.',
    remedy: "Read the console log that the message names, lower the machine's load, and run `voidbox doctor`.",
  },
  'vm/lost': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'A VM or its keeper died while a stage needed it.',
    remedy:
      'Nothing to do: Voidbox retries the scope at most 3 times. If this happens often, read the console log that the message names.',
  },
  'vm/protocol': {
    kind: 'world',
    retry: 'new-vm',
    summary: 'The guest violated the protocol, so Voidbox killed the VM.',
    remedy:
      'If the same stage causes it each time, its code attacks the guest agent; otherwise report it with the console log.',
  },
  'vm/refused': {
    kind: 'world',
    retry: 'never',
    summary:
      'The guest rejected the settings of its VM, such as a mount over a system folder. Another VM would reject them too.',
    remedy: 'Correct the setting that the message names; in most cases it is the `guest` path of a mount.',
  },
  'vm/guest-error': {
    kind: 'world',
    retry: 'never',
    summary: 'A file operation in the guest failed. In most cases a part of the path is not a folder.',
    remedy: 'Correct the path that the message names.',
  },
  'vm/busy': {
    kind: 'world',
    retry: 'never',
    summary:
      'A checkpoint of a VM was not made, because a command ran or started in the VM, or another checkpoint of it was made.',
    remedy: 'Wait until each command of the VM has ended, or end it. Then make the checkpoint again.',
  },
  'vm/checkpoint-failed': {
    kind: 'world',
    retry: 'never',
    summary:
      'A checkpoint of a VM is not complete: its guest did not freeze its file system, or continued before the disk was copied. Nothing is kept, and the VM continues.',
    remedy: 'Make the checkpoint again when the host is less busy, or write less to the disk of the VM.',
  },
  'vm/checkpoint-unfit': {
    kind: 'world',
    retry: 'never',
    summary:
      'A VM cannot start from a checkpoint: there is no checkpoint of this name, its disk is missing or damaged, is larger than `disk_mb`, or belongs to another `image`.',
    remedy:
      'Use a name that the message lists, set `disk_mb` and `image` to the values that it names, or make the checkpoint again.',
  },
  'vm/checkpoint-exists': {
    kind: 'world',
    retry: 'never',
    summary: 'A prepared sandbox was not made, because another one has its name.',
    remedy: 'Use another name, delete the other prepared sandbox, or replace it (`--replace`, `replace: true`).',
  },
  'vm/checkpoint-limit': {
    kind: 'world',
    retry: 'never',
    summary:
      'A prepared sandbox was not made, because all prepared sandboxes of the state folder would use more room than `VOIDBOX_PREPARED_MAX_MB` allows.',
    remedy: 'Delete those that you do not need (`voidbox snapshot delete ID`), or raise `VOIDBOX_PREPARED_MAX_MB`.',
  },
  'vm/checkpoint-secrets': {
    kind: 'world',
    retry: 'never',
    summary: 'A prepared sandbox was not made, because its VM got a secret or a credential, which may be on its disk.',
    remedy:
      'Make it of a stage without secrets, or confirm that its disk may contain them: `--with-secrets`, `withSecrets: true`.',
  },
  'vm/no-capacity': {
    kind: 'world',
    retry: 'temporal',
    summary:
      'The host has no free memory for another VM, or its disk is nearly full (less than 512 MiB free, or 5 % of a small disk).',
    remedy: 'Wait until other VMs end, lower `memory_mb`, free disk space, or add a host.',
  },
  'vm/too-large': {
    kind: 'world',
    retry: 'never',
    summary: 'A stage asks for more memory than the host has in total.',
    remedy: 'Lower `memory_mb` of the sandbox, or run on a larger host.',
  },
  'host/not-ready': {
    kind: 'world',
    retry: 'never',
    summary:
      'The host lacks something that runs need: a piece of set-up or a program that builds it, disk space, a writable folder, or open files.',
    remedy: 'Follow the message. `voidbox doctor` lists everything that is missing, with the commands that fix it.',
  },
  'host/state-format': {
    kind: 'world',
    retry: 'never',
    summary:
      'The state folder has the format of another version of Voidbox, or its format number is missing or cannot be read. Voidbox does not change the folder.',
    remedy:
      'Stop its stack: `voidbox down`. Then move the folder away, or use another one: `export VOIDBOX_STATE_DIR=FOLDER`.',
  },
  'host/isolation': {
    kind: 'world',
    retry: 'never',
    summary: 'The host cannot provide the isolation that the spec requires.',
    remedy: 'Run `voidbox doctor`, which lists what is missing, or lower `isolation` in the spec.',
  },
  'host/variable-missing': {
    kind: 'world',
    retry: 'never',
    summary: 'A stage needs a host variable, but neither the shell that starts the run nor the worker sets it.',
    remedy:
      'Set the variable in the shell that runs `voidbox run`. With a worker for your own server, put it into the file of `--secrets-file` (`NAME=value`, mode 0600), or allow it from the environment of the worker with `--allow-env NAME`.',
  },
  'host/login-expires': {
    kind: 'world',
    retry: 'never',
    summary:
      'The login of Claude or Codex on this machine expires before the `timeout_secs` of an agent, or had expired when its stage started.',
    remedy:
      'Start `claude` or `codex` once to renew the login, set `CLAUDE_CODE_OAUTH_TOKEN`, or lower `timeout_secs`. Continue a failed run with `voidbox retry RUN`.',
  },
  'host/login-invalid': {
    kind: 'world',
    retry: 'never',
    summary: 'The login given for an agent is not a ChatGPT subscription login.',
    remedy:
      'Set `CODEX_AUTH_JSON` to the text of the `auth.json` that `codex login` writes, or unset it on a machine where `codex` is logged in.',
  },
  'host/secrets-file': {
    kind: 'world',
    retry: 'never',
    summary:
      "The worker's secrets file is missing, is too large, has other lines than `NAME=value`, or is not a regular file that only the worker's user can read (mode 0600).",
    remedy:
      'Correct the file as the message says, and run again. To replace values, write a new file and `mv` it over the old.',
  },
  'host/variable-not-text': {
    kind: 'world',
    retry: 'never',
    summary:
      'The value of a host variable that a run reads is not UTF-8, so the command would receive different bytes.',
    remedy: 'Set the variable to UTF-8 text, for example to base64 that the command decodes.',
  },
  'host/variable-too-large': {
    kind: 'world',
    retry: 'never',
    summary: 'The values of all host variables that a run reads exceed 64 KiB together.',
    remedy: 'Mount large data as a file, and use variables only for credentials.',
  },
  'host/no-service': {
    kind: 'world',
    retry: 'temporal',
    summary:
      'A worker could not hand a time of a schedule to the service of its state folder, or the service uses another database.',
    remedy:
      'Start the service on the host of the worker: the embedded stack does it on its own, with your own server run `voidbox serve` with the same VOIDBOX_STATE_DIR. The worker tries again for a week.',
  },
  'host/elsewhere': {
    kind: 'world',
    retry: 'temporal',
    summary:
      'A worker received a task of a run that another host admitted, or of a VM on another host; it returns the task.',
    remedy: "Nothing to do while the worker of the run's host is running; otherwise start it.",
  },
  'host/disk-full': {
    kind: 'world',
    retry: 'never',
    summary:
      "The host's disk was full for longer than a VM waits for space (one hour, unless `VOIDBOX_DISK_FULL_LIMIT_MS` is set).",
    remedy:
      'Free space on the disk of the state folder, which the message names (`voidbox prune` deletes old runs), then run again.',
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
    summary: 'An attempt detached from its stage, because its worker is stopping or the server timed out the attempt.',
    remedy: 'Nothing to do: the command keeps running in its VM, and the next attempt attaches to it.',
  },
  'fence/stale': {
    kind: 'world',
    retry: 'temporal',
    summary: 'A newer attempt of the stage has taken over; writes of the older attempt are refused.',
    remedy: 'Nothing to do: the newer attempt continues.',
  },
  'admit/invalid': {
    kind: 'world',
    retry: 'never',
    summary: 'The input of `voidboxRun` is not a valid spec or plan.',
    remedy: 'Fix the mistakes that the message lists.',
  },
  'admit/unsupported-work': {
    kind: 'world',
    retry: 'never',
    summary:
      'The spec or plan is valid, but this build of Voidbox cannot run a part of it: an agent, a service, a terminal, an image.',
    remedy:
      'Remove the parts that the message names; [the list](spec.md#what-is-checked-and-does-not-run-yet) shows what this build cannot run.',
  },
  'admit/mount-refused': {
    kind: 'world',
    retry: 'never',
    summary: 'A mount names a host folder that does not exist or that this worker does not allow.',
    remedy:
      "Create the folder on the worker's host and allow it with `voidbox worker --allow-mounts FOLDER`; on the embedded server, use a folder below the spec's folder, or `voidbox run FILE --allow-mounts FOLDER`. Allow a repository of the network with `--allow-git HOST/PATH`.",
  },
  'admit/service-refused': {
    kind: 'world',
    retry: 'never',
    summary: 'A VM asks for a service of the host or its network that this worker does not allow.',
    remedy: "Allow it on the worker's host with `voidbox worker --allow-services HOST:PORT`, written as in the spec.",
  },
  'admit/keep-refused': {
    kind: 'world',
    retry: 'never',
    summary: 'The spec has `keep: on-failure`, but this worker does not allow runs to keep VMs of failed stages.',
    remedy: "Allow it on the worker's host with `voidbox worker --allow-keep`, or remove `keep` from the spec.",
  },
  'admit/snapshot-unknown': {
    kind: 'world',
    retry: 'never',
    summary: 'The `snapshot` of a sandbox names no prepared sandbox of the host that runs it, or more than one.',
    remedy:
      "Use a name that the message lists, or make the prepared sandbox on the worker's host: `voidbox snapshot create FILE --stage NAME --name NAME`.",
  },
  'admit/skill-unavailable': {
    kind: 'world',
    retry: 'never',
    summary: 'An agent skill `remote:` could not be fetched, so the run did not start.',
    remedy:
      "Correct its name as the message says, or save the document and name it as `file:PATH`. The worker's host fetches it from raw.githubusercontent.com by HTTPS, without a proxy.",
  },
  'call/refused': {
    kind: 'world',
    retry: 'never',
    summary:
      "An activity was called with a run, stage, VM, lease, event or outcome that the run's records do not confirm.",
    remedy:
      'Start runs as `voidboxRun` workflows and do not call their activities directly. If one of your runs fails with this code, its records are damaged or another build continued it: start it again.',
  },
  'call/not-allowed': {
    kind: 'world',
    retry: 'never',
    summary:
      'An approval with `self_approval: false` got an answer without a proof, of the token that started the run, or of a token that `by` does not name.',
    remedy:
      'Answer over the HTTP API with another token that `by` names, or as the owner of the state folder on the host of the run: `voidbox approve`. See [proven answers](api-http.md#proven-answers).',
  },
  'run/ended': {
    kind: 'world',
    retry: 'never',
    summary: 'A run that has ended was asked to continue, for example by a reset. Ended runs do not change.',
    remedy: 'Start a new run.',
  },
  'run/history-full': {
    kind: 'world',
    retry: 'never',
    summary:
      "A run's history came near the size or length at which Temporal terminates a workflow; the run stopped its stages and ended.",
    remedy:
      'Split the spec into several runs, allow fewer attempts with `retry`, or pass fewer outputs between stages.',
  },
  'run/grace': {
    kind: 'outcome',
    retry: 'never',
    summary: 'The stages with `finally` were stopped because they took longer than their common limit (`grace_secs`).',
    remedy: 'Raise `grace_secs` of the spec, or make their commands faster.',
  },
  'run/timeout': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'The stages of a run were stopped because the run took longer than its `timeout_secs` or `--deadline` allows.',
    remedy:
      'Give the run more time: raise `timeout_secs` at the top level of the spec, or use `voidbox retry RUN` with `--timeout` or `--deadline`, whichever the message names.',
  },
  'run/terminated': {
    kind: 'world',
    retry: 'never',
    summary:
      "The Temporal server ended a run's workflow from outside: an operator terminated it, a limit or timeout of the server was reached, or the server no longer knows it.",
    remedy: 'Read the reason in the message; start a new run.',
  },
  'run/id-taken': {
    kind: 'world',
    retry: 'never',
    summary:
      'A second workflow was started with the id of a run whose records are on this host; Voidbox neither returns nor overwrites them.',
    remedy:
      'Start the run with another workflow id, or reset the first one. With the workflow id reuse policy RejectDuplicate, the server rejects such a start.',
  },
  'origin/unknown': {
    kind: 'world',
    retry: 'never',
    summary:
      'A run should reuse outputs of an earlier run that this host does not have: it was pruned or not admitted, or another host or another Temporal server has it.',
    remedy:
      'Follow the message: retry on the host that has the earlier run, or start the spec again with `voidbox run`.',
  },
  'origin/open': {
    kind: 'world',
    retry: 'never',
    summary: 'A run should reuse outputs of an earlier run that has not ended.',
    remedy: 'Wait for its end (`voidbox logs RUN -f`), or cancel it with `voidbox cancel RUN`.',
  },
  'origin/differs': {
    kind: 'world',
    retry: 'never',
    summary: 'A fork starts after a stage that differs between its spec and the earlier run.',
    remedy: 'Fork from the first stage that differs, or omit `--from`, and the fork starts there.',
  },
  'origin/output-gone': {
    kind: 'world',
    retry: 'never',
    summary: 'An output of the earlier run that a run should reuse has been deleted.',
    remedy: 'Run the stage that the message names again: `--from STAGE`.',
  },
  'origin/no-save': {
    kind: 'world',
    retry: 'never',
    summary:
      'A retry should continue an agent, but the earlier run has no saved work of this agent that matches its stage.',
    remedy:
      'Follow the message: restart the agents that it names with `--fresh STAGE`, or all of them with `voidbox retry RUN` without `--continue`.',
  },
  'mount/unusable': {
    kind: 'world',
    retry: 'never',
    summary:
      'A writable mount cannot be captured: an entry cannot be read, or the folder is larger than the disk of its VM.',
    remedy: 'Follow the message: let the worker read the entry, raise `disk_mb`, or mount a smaller folder.',
  },
  'session/failed': {
    kind: 'outcome',
    retry: 'never',
    summary:
      'A session of a step machine ended without its result: a limit was reached, or the step machine made an impossible move.',
    remedy: 'Read the message and `voidbox session history SESSION`; fix the step machine and start a new session.',
  },
  'session/refused': {
    kind: 'outcome',
    retry: 'never',
    summary: 'An answer was not accepted: another step or turn is due, or the session has ended.',
    remedy: 'See what is due with `voidbox session status SESSION`.',
  },
  'session/foreign': {
    kind: 'world',
    retry: 'never',
    summary:
      "An activity of a session was called by something other than the session's workflow, for a session that this host did not open, or with different facts from those at its start. The call changed nothing.",
    remedy:
      'Use `voidbox session` or the update `advance`. If you did not make the call, someone else can reach your Temporal server: see docs/reference/sessions.md, "Who may ask".',
  },
  'skill/unknown': {
    kind: 'world',
    retry: 'never',
    summary: 'The worker has not loaded a step machine of that name, version or code.',
    remedy:
      'Load it with `voidbox up --skills DIR`, or `voidbox worker --skills DIR`; the message lists what is loaded.',
  },
  'skill/ambiguous': {
    kind: 'world',
    retry: 'never',
    summary:
      'The worker has loaded several versions of the code of one step machine, and the start of the session does not choose one.',
    remedy:
      'Choose one by its hash: `voidbox session start NAME --code HASH`. Or load only one: `voidbox up --skills PATH…`.',
  },
  'skill/not-found': {
    kind: 'world',
    retry: 'never',
    summary: 'There is no step machine at the given path.',
    remedy: "Pass the step machine's entry (a TypeScript or JavaScript file), or a folder with a `skill.ts`.",
  },
  'skill/params': {
    kind: 'world',
    retry: 'never',
    summary: 'The params of a session do not match the params that the step machine declares.',
    remedy: 'Correct what the message names and start again. For a stage, they are the `params` in its `skill`.',
  },
  'skill/unusable': {
    kind: 'world',
    retry: 'never',
    summary: 'The code of a step machine cannot be bundled or loaded, or its definition has mistakes.',
    remedy: 'Correct what the message names; `voidbox session start` reads the files again.',
  },
  'skill/not-compliant': {
    kind: 'world',
    retry: 'never',
    summary:
      'The step machine cannot be built for agentskills.io: its name, description or version is missing or invalid.',
    remedy: 'Change what the message names in the `skill({ … })` of the entry, or the folder after `-o`.',
  },
  'skill/lint': {
    kind: 'world',
    retry: 'never',
    summary: 'Lint found errors in the step machine; nothing was built.',
    remedy: 'Fix the errors listed above the message.',
  },
  'skill/output-taken': {
    kind: 'world',
    retry: 'never',
    summary: 'The output folder of a build contains other files, or cannot be written.',
    remedy: 'Build into another folder, or pass `--force`, which replaces only the files that a build writes.',
  },
  'skill/bun': {
    kind: 'world',
    retry: 'never',
    summary: 'bun, which compiles step machines to executables, is missing or failed.',
    remedy:
      'Install it from https://bun.sh and put it on the PATH, or build with `--mode node`, which does not need it.',
  },
  'skill/variable-missing': {
    kind: 'world',
    retry: 'never',
    summary:
      'A variable that a step machine declares in `env` is not set in the shell that starts its session, or was not passed to the worker.',
    remedy:
      'Set the variable in the shell that starts the session or, with your own server, in the environment of its worker.',
  },
  'skill/crashed': {
    kind: 'world',
    retry: 'never',
    summary: 'A callback of a step machine ended its process or did not return in time. Only that process was ended.',
    remedy: "Fix the callback. Move long work into a step's action, with `timeoutMs`.",
  },
  'skill/away': {
    kind: 'world',
    retry: 'temporal',
    summary: 'The worker does not have the code that a session needs.',
    remedy:
      'Load that code again, or declare a migration in the new version; the session then continues automatically.',
  },
  'store/io': {
    kind: 'world',
    retry: 'temporal',
    summary: 'The event or artifact store could not be read or written.',
    remedy: 'Check disk space and permissions of the state folder named in the message.',
  },
  'store/damaged': {
    kind: 'world',
    retry: 'never',
    summary: 'The files of a run in the state folder are damaged: events or records are missing, swapped or changed.',
    remedy:
      'Restore the file that the message names from a backup, or move the run to `damaged/` with `voidbox set-aside RUN`. Other runs are not affected.',
  },
  'internal/bug': {
    kind: 'world',
    retry: 'never',
    summary: 'A bug in Voidbox.',
    remedy: "Report it with the message and the worker's log.",
  },
  'run/too-large': {
    kind: 'world',
    retry: 'never',
    summary: 'A value is larger than the limit for values of a run.',
    remedy: 'Pass large data as files, such as named outputs or mounts.',
  },
  ...QUEUE_CODES,
  ...CLI_CODES,
  ...SOURCE_CODES,
  ...TRIGGER_CODES,
  ...NOTIFY_CODES,
  ...API_CODES,
} as const satisfies Record<string, ErrorCodeInfo>;

export type ErrorCode = keyof typeof ERROR_CODES;
