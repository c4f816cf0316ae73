import type { ErrorCodeInfo } from './code-info.ts';

/** Codes of the command line itself, in `error.code` of `--json`. No run and no stage ends with one. Part of `ERROR_CODES`. */
export const CLI_CODES = {
  'cli/usage': defineCommandCode(
    'The command line is wrong: an unknown command or flag, or a file, run or stage that does not exist.',
    'Follow the message; `voidbox COMMAND --help` lists the flags.',
  ),
  'cli/variable-invalid': defineCommandCode(
    'An environment variable that sets a key of `llm` has a value that is not valid for the key.',
    'Correct or unset the variable that the message names; [Variables](cli.md#variables) lists them.',
  ),
  'spec/invalid': defineCommandCode(
    'The spec has mistakes; each is listed above with its own code.',
    'Fix them; `voidbox validate FILE` lists them without starting a run.',
  ),
  'cli/mount-missing': defineCommandCode(
    'The spec mounts a folder that cannot be read on this machine.',
    "Create the folder, or correct `host` of the mount; a path is relative to the spec's folder.",
  ),
  'cli/skill-missing': defineCommandCode(
    "An agent skill `file:PATH` is not a file on this machine. Paths are relative to the spec's folder, not to the working directory.",
    'Create the file, or correct the path.',
  ),
  'cli/skill-refused': defineCommandCode(
    "An agent skill `file:PATH` is neither below the spec's folder nor allowed on this machine.",
    'Move it below the folder of the spec, or allow its folder: `voidbox run FILE --allow-mounts FOLDER`.',
  ),
  'cli/mount-refused': defineCommandCode(
    "The spec mounts a folder of this machine that is neither below the spec's folder nor allowed.",
    'Move the folder below that of the spec, or allow it with `voidbox up --allow-mounts FOLDER`.',
  ),
  'cli/git-refused': defineCommandCode(
    'The spec fetches a repository of the network with your git login, and you have not allowed it.',
    'Allow it with `voidbox run FILE --allow-git HOST/PATH`, or clone the repository and name the folder. On a terminal `run` asks.',
  ),
  'cli/workspace-subfolder': defineCommandCode(
    'A workspace names a folder within a repository; a workspace is the top folder.',
    'Name the top folder with `git`, and the folder in it with `subfolder`, as the message says.',
  ),
  'cli/mount-git': defineCommandCode(
    'A writable mount contains a git repository. Git runs programs that the files of a repository name.',
    'Use `workspace`, which brings changes back as a patch; or set `git: writable` at the mount if you trust its stages.',
  ),
  'cli/image-missing': defineCommandCode(
    'The spec names an image that this machine does not have: a path that does not exist, or a name of a registry.',
    'Correct the path, or bring the image and name it: `voidbox run FILE --image NAME=PATH`.',
  ),
  'cli/image-refused': defineCommandCode(
    "The spec names an image that is neither below the spec's folder nor allowed on this machine.",
    'Move it below the folder of the spec, or name it with `--image NAME=PATH`.',
  ),
  'cli/image-unfit': defineCommandCode(
    'An image cannot be the root of a guest: it is damaged, too large, for another processor, has no `/bin/sh`, or contains entries that images must not have.',
    'Follow the message, which names the entry; [Images](guest.md#images-of-your-own) lists what an image may contain.',
  ),
  'cli/no-server': defineCommandCode(
    'No Temporal server answers, neither a configured one nor the embedded one.',
    'Follow the message; `voidbox ps` shows the state of the embedded server.',
  ),
  'cli/start-unknown': defineCommandCode(
    'The connection to the Temporal server was lost during the start of a run, and the server does not say whether it has the run.',
    'Look for the run with `voidbox status RUN`; start it again if no run has the id. A request with an `Idempotency-Key` can be sent again.',
  ),
  'cli/no-service': defineCommandCode(
    'The service that `VOIDBOX_SERVER`, a login or a program names does not answer, or not as Voidbox does.',
    'Check the address (`voidbox login --status`), and that the service runs on its machine: `voidbox up --listen HOST:PORT`.',
  ),
  'cli/not-remote': defineCommandCode(
    'The command works only on the machine of the runs, but `VOIDBOX_SERVER` or a login names another machine.',
    'Use the command on that machine, or use this machine: unset `VOIDBOX_SERVER`, and `voidbox logout`.',
  ),
  'cli/stack-stopped': defineCommandCode(
    'The embedded stack was stopped by `voidbox down` while the command followed a run.',
    'Start it again with `voidbox up`, which continues the run; follow it with `voidbox logs RUN -f`.',
  ),
  'cli/run-elsewhere': defineCommandCode(
    'The Temporal server knows the run, but its data is on another host.',
    'Run the command on the host that the message names.',
  ),
  'cli/exec-refused': defineCommandCode(
    'The worker of the run does not allow `voidbox exec` in the VM of a running stage.',
    'Ask the operator of the worker to start it with `voidbox worker --allow-exec`, which applies to VMs that start afterwards. The embedded stack allows it.',
  ),
  'cli/answer-refused': defineCommandCode(
    'The run rejected the answer: no stage asks, the stage already has another answer, or a field is missing or wrong.',
    'Follow the message; `voidbox status RUN` shows the question and its fields.',
  ),
  'cli/apply-conflicts': defineCommandCode(
    'The changes of a stage do not apply to the files of the repository, and nothing was changed; or `--3way` merged them with conflicts.',
    'Merge, with conflict markers: `voidbox apply RUN --3way`. Or get the commits as a branch and merge it: `voidbox apply RUN --branch`. After a merge with conflicts, edit the files that the message names, or restore them as it says.',
  ),
  'cli/command-run': defineCommandCode(
    'The run belongs to one command (`runCommand`), which an activity of another workflow controls.',
    'Cancel or restart that workflow; the message names it.',
  ),
  'cli/run-pruned': defineCommandCode(
    'This host no longer has the files of the run: `voidbox prune` deleted them, or the state folder was replaced. The Temporal server still has its history.',
    'Read its history in the Temporal UI, or start the run again.',
  ),
  'cli/elsewhere': defineCommandCode(
    "Older records of a session are on its worker's host, not on this one.",
    "Run the command on the worker's host.",
  ),
  'cli/no-result': defineCommandCode(
    'The run succeeded, but its result is not in the store.',
    'See its stages and their outputs: `voidbox status RUN`.',
  ),
  'cli/inexact-number': defineCommandCode(
    'The output of a successful run contains a number that JavaScript cannot represent exactly, so `run()` in TypeScript does not return the output.',
    'Let the stage print the number as a string, or read the text with `voidbox result RUN`.',
  ),
  'cli/no-snapshots': defineCommandCode(
    'No snapshot can be made, read or deleted: snapshots are off, or the folder of snapshots cannot be used.',
    'Follow the message; [snapshots](snapshots.md) lists when a VM starts from a snapshot.',
  ),
  'cli/foreign-unit': defineCommandCode(
    'The systemd user unit `voidbox.service`, or its file of variables, exists, and `voidbox service install` did not write it in its present form.',
    'Move it away, or write your settings into a drop-in: `systemctl --user edit voidbox`.',
  ),
  'cli/no-systemd': defineCommandCode(
    'systemd does not answer for this user, such as in a container or after `su`.',
    'Log in as the user itself. Without systemd, start the stack with cron: `@reboot voidbox up`.',
  ),
  'cli/unit-failed': defineCommandCode(
    'systemd could not enable, start or stop the unit `voidbox.service`.',
    'Read why: `journalctl --user -u voidbox`.',
  ),
  'cli/bug': defineCommandCode('A bug in the command line.', 'Report it with the message.'),
} as const satisfies Record<string, ErrorCodeInfo>;

function defineCommandCode(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'command'; readonly retry: 'never' } {
  return { kind: 'command', retry: 'never', summary, remedy };
}
