import { randomUUID } from 'node:crypto';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { isLostVm } from '../../../domain/errors/error-code.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { AppError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { bytesSink } from '../../runs/bytes-sink.ts';
import { type ExitCode, toExitCode } from '../../exit-code.ts';
import { findEnterable } from '../../../app/runs/enterable-vm.ts';
import { keeperOf } from '../../../app/runs/retained-vms.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { quoteStageName } from '../../../app/runs/run-id.ts';

interface Options {
  readonly stdin?: boolean;
  readonly cwd: string;
}

const HELP = `
The VM is that of a stage that runs, or one that a failed stage has left (\`keep: on-failure\`). The command runs as the
stage's user, without the stage's variables and secrets. A notice of the run names the program that enters the VM of a
stage that runs; a worker of your own server allows it with --allow-exec. Its output and its exit code are passed on as
they are; on a terminal, escape sequences are left out. Its standard input is empty; with -i it is yours, to its end: a
file, a pipe, or lines from a terminal, for which the command has no terminal itself. Ctrl-C interrupts it, a second one
kills it.

  voidbox exec latest build -- ls -l /workspace
  voidbox exec latest -- sh -c 'cat *.log' > logs.txt
  voidbox exec -i latest build -- tar -xf - < fix.tar`;

export const command = defineCommand<Options>({
  hasSeparator: true,
  withoutJson:
    '`exec` passes on what the command prints: leave --json out, or put it behind `--` if it is an option of the command',
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument('[stage]', "whose VM, of an item 'fixes[1].work'; may be left out if the run has only one")
      .argument('[command...]', 'behind `--`: the program and its arguments')
      .option('-i, --stdin', 'pass standard input on to the command')
      .option('--cwd <folder>', 'where it runs in the guest', '/workspace')
      .addHelpText('after', HELP);
  },
  async execute(typed, options, context) {
    const { run, stage, program, args } = splitArguments(typed);
    const { runId, vm, record } = await findEnterable(run, stage, context);
    const { execInVm } = await import('../../../client/vms/retained-vms.ts');
    // First: a command that is not in the log does not run.
    await record?.(program, randomUUID());
    const sinks = { stdout: bytesSink(context.stdout), stderr: bytesSink(context.stderr) };
    const ended = execInVm(
      vm,
      { program, args, cwd: options.cwd },
      {
        input: options.stdin === true ? (signal) => context.openStdin(signal) : null,
        write: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => sinks[stream].write(bytes),
        onInterrupt: (callback) => context.onInterrupt(callback),
      },
      keeperOf(context),
    ).catch((error: unknown) => {
      throw explain(error, runId);
    });
    const listening = context.onReaderGone(() => ended);
    try {
      const end = await ended;
      await sinks.stdout.end();
      await sinks.stderr.end();
      return await exitOf(end, { runId, stage }, context);
    } finally {
      listening.dispose();
    }
  },
});

/** The remedies of these codes are meant for authors of specs, so replace them here. */
function explain(error: unknown, runId: string): unknown {
  if (!isCodedError(error)) return error;
  if (error.code === 'run/too-large')
    return createUsageError(
      'the program and its arguments are too long for one command: at most 1 MiB are allowed',
      'Pass them on standard input: voidbox exec -i …',
    );
  if (!isLostVm(error.code)) return error;
  return new AppError(
    'failed',
    error.code,
    `the command was cut off: ${error.message} (${error.code})`,
    `See how its stage ended: voidbox status ${quoteRunId(runId)}`,
  );
}

interface TypedExec {
  readonly run: string;
  readonly stage: string | undefined;
  readonly program: string;
  readonly args: readonly string[];
}

function splitArguments(typed: readonly string[]): TypedExec {
  // Before a run whose id begins with a hyphen there is another one.
  const words = typed[0] === '--' ? typed.slice(1) : typed;
  const separator = words.indexOf('--');
  const [run = '', stage, ...more] = separator < 0 ? words : words.slice(0, separator);
  const [program, ...args] = separator < 0 ? [] : words.slice(separator + 1);
  if (program === undefined)
    throw createUsageError(
      'the command is missing',
      `Write it behind \`--\`: voidbox exec ${quoteRunId(run)} ${stage === undefined ? 'STAGE' : quoteStageName(stage)} -- ls -l /workspace`,
    );
  if (more.length > 0)
    throw createUsageError(
      `\`${sanitizeLine(more.join(' '))}\` is too much before \`--\``,
      `voidbox exec ${quoteRunId(run)} ${quoteStageName(stage!)} -- COMMAND`,
    );
  return { run, stage, program, args };
}

async function exitOf(
  { reason, exitCode, message }: { readonly reason: string; readonly exitCode: number; readonly message: string },
  { runId, stage }: { readonly runId: string; readonly stage: string | undefined },
  { stderr }: CliContext,
): Promise<ExitCode> {
  switch (reason) {
    case 'timeout':
      throw new AppError('failed', 'vm/lost', 'the time of the VM was over before the command had ended');
    case 'output-limit':
      throw new AppError(
        'failed',
        'stage/output-limit',
        'the command wrote more than 256 MiB and was killed',
        `Print less of it: voidbox exec ${quoteRunId(runId)} ${stage === undefined ? '' : `${quoteStageName(stage)} `}-- tail -c 1000000 FILE`,
      );
    case 'cannot-start':
      await stderr.write(`voidbox exec: ${sanitizeLine(message)}\n`);
      return toExitCode(exitCode);
    default:
      return toExitCode(exitCode);
  }
}
