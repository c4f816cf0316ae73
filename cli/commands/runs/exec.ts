import { randomUUID } from 'node:crypto';
import { isCodedError } from '../../../domain/errors/coded-error.ts';
import { isLostVm } from '../../../domain/errors/error-code.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { AppError, createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import type { CommandHelp } from '../../command-help.ts';
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

const HELP: CommandHelp = {
  usage: '[options] <run> [stage] -- <command...>',
  common: ['--stdin', '--cwd'],
  examples: [
    ['voidbox exec latest build -- ls -l /workspace', 'list files'],
    ["voidbox exec latest -- sh -c 'cat *.log' > logs.txt", 'fetch output'],
    ['voidbox exec -i latest build -- tar -xf - < fix.tar', 'send files'],
  ],
  notes: [
    [
      'VM',
      'A running stage has its VM until it ends. With `keep: on-failure`, a failed stage keeps its VM for inspection.',
    ],
    ['User', "The command runs as the stage's user, without the stage's variables and secrets."],
    [
      'Running stage',
      'A notice in the log of the run names the program. A worker of your own server must allow it with --allow-exec.',
    ],
    [
      'Output',
      'exec passes on the output and the exit code of the command unchanged; for a terminal, it removes escape sequences.',
    ],
    [
      'Input',
      'Standard input is empty. With -i, the command reads your standard input to its end: a file, a pipe, or lines from a terminal. The command itself has no terminal.',
    ],
    ['Ctrl-C', 'The first one interrupts the command, the second one kills it.'],
  ],
  exitCodes: [
    ['0-255', 'the exit code of the command; 128 plus the number of a signal that ended it'],
    ['126, 127', 'the command could not be started'],
    ['1', 'also: the VM ended first, or the command wrote more than 256 MiB'],
    ['2', 'also: the command line has a mistake, or the stage has no VM on this host'],
    ['3', 'also: environment, or the worker does not allow it'],
  ],
};

export const command = defineCommand<Options>({
  hasSeparator: true,
  help: HELP,
  withoutJson:
    '`exec` passes on the output of the command: remove --json, or put it after `--` if it is an option of the command',
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .argument(
        '[stage]',
        "the stage whose VM to use, or an item such as 'fixes[1].work'; optional if the run has only one VM",
      )
      .argument('[command...]', 'after `--`: the program and its arguments')
      .option('-i, --stdin', 'pass standard input to the command')
      .option('--cwd <folder>', 'the working folder of the command in the guest', '/workspace');
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
      `Write it after \`--\`: voidbox exec ${quoteRunId(run)} ${stage === undefined ? 'STAGE' : quoteStageName(stage)} -- ls -l /workspace`,
    );
  if (more.length > 0)
    throw createUsageError(
      `\`${sanitizeLine(more.join(' '))}\` is not allowed before \`--\`: write only a run and a stage there`,
      `Write the command after \`--\`: voidbox exec ${quoteRunId(run)} ${quoteStageName(stage!)} -- COMMAND`,
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
      throw new AppError('failed', 'vm/lost', 'the VM ended at its time limit, before the command had ended');
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
