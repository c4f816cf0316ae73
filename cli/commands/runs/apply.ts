import { createUsageError } from '../../../app/app-error.ts';
import {
  type AppliedChanges,
  applyChanges,
  type ApplyNotice,
  type ApplyRequest,
  findChanges,
  type FoundChanges,
  writeApplyAgain,
} from '../../../app/runs/apply-changes.ts';
import { findRunHere } from '../../../app/runs/run-elsewhere.ts';
import { listStages } from '../../../app/runs/workspace-of-run.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { bytesSink } from '../../runs/bytes-sink.ts';
import { paintPatch } from '../../render/runs/patch.ts';
import { describeConflicts, renderApplied, renderApplyNotice } from '../../render/runs/applied-changes.ts';

interface Options {
  readonly stage?: string;
  readonly repository?: string;
  readonly partial?: boolean;
  /** The name of the branch; empty for the default name, made from the run and the stage. */
  readonly branch?: string;
  readonly patch?: boolean;
  readonly check?: boolean;
  readonly '3way'?: boolean;
  readonly json?: boolean;
}

type Mode = 'apply' | 'branch' | 'patch' | 'check';

export const command = defineCommand<Options>({
  withEquals: ['--branch'],
  help: {
    common: ['--check', '--branch', '--3way', '--stage'],
    examples: [
      ['voidbox apply latest --check', 'test whether the changes apply'],
      ['voidbox apply latest', 'change the working tree'],
      ['voidbox apply latest --branch', 'create a branch with the commits'],
      ['voidbox apply latest --patch > fix.patch', 'write a patch'],
    ],
    notes: [
      [
        'Working tree',
        'It lists the changed files, then writes them. It stages and commits nothing. It applies all changes or none, unless --3way merges them.',
      ],
    ],
    exitCodes: [
      ['0', 'the changes were applied, or apply'],
      ['1', 'a file conflicts, and nothing was changed; --3way left conflict markers; or git rejects the changes'],
      ['2', 'the command line has a mistake, or the run or stage has no changes'],
      ['3', 'environment: the data is not on this host, or git is missing'],
    ],
  },
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .option(
        '-s, --stage <stage>',
        "the stage whose changes to apply, or an item such as 'fixes[1].work'; required if several stages have changes that no later stage uses",
      )
      .option('--partial', 'apply the changes of an agent whose stage failed or was cancelled')
      .option(
        '--branch [=name]',
        'create a branch with the commits (default name: `voidbox/RUN/STAGE`), and change no file',
      )
      .option('--patch', 'print the patch, and change nothing')
      .option('--check', 'report whether the changes apply, and change nothing')
      .option('--3way', 'merge files that changed on both sides, and write conflict markers into those that conflict')
      .option(
        '-r, --repository <folder>',
        'the top folder of the repository to change (default: the repository of the workspace, or the current folder if it came from a URL or another machine)',
      );
  },
  async execute([text = ''], options, context) {
    const mode = modeOf(options);
    const runId = await findRunHere('apply', text, context);
    const choice = { stage: options.stage ?? null, isPartial: options.partial === true };
    const found = await findChanges(runId, choice, context);
    if (found.leftOut.length > 0 && options.json !== true)
      await context.stderr.write(
        `${context.advise(`changes of agents that did not succeed are not included (${listStages(found.leftOut)}): voidbox apply --partial ${quoteRunId(runId)}`)}\n`,
      );
    if (mode === 'patch') return await printPatch(found, context);
    const abort = new AbortController();
    const listening = context.onInterrupt(() => abort.abort());
    const request: ApplyRequest = {
      choice,
      mode,
      repository: options.repository ?? null,
      branch: options.branch || null,
      merges: options['3way'] === true,
      signal: abort.signal,
    };
    try {
      const applied = await applyChanges(found, request, context, (notice) => printNotice(notice, options, context));
      return await printApplied(applied, { found, request, options, context });
    } catch (error) {
      if (abort.signal.aborted) return EXIT.interrupted;
      throw error;
    } finally {
      listening.dispose();
    }
  },
});

function modeOf({ branch, patch, check, json, '3way': merges }: Options): Mode {
  const modes = (['branch', 'patch', 'check'] as const).filter(
    (mode) => ({ branch: branch !== undefined, patch, check })[mode] === true,
  );
  if (modes.length > 1)
    throw createUsageError(`--${modes[0]!} and --${modes[1]!} cannot be combined`, 'Remove one of them.');
  if (patch === true && json === true)
    throw createUsageError('--patch and --json cannot be combined', 'Remove one of them.');
  if (merges === true && (branch !== undefined || patch === true))
    throw createUsageError(`--3way and --${modes[0]!} cannot be combined`, 'Remove one of them.');
  return modes[0] ?? 'apply';
}

async function printPatch({ left }: FoundChanges, context: CliContext): Promise<ExitCode> {
  const { artifacts } = await context.stores();
  const sink = bytesSink(context.stdout, (text) => paintPatch(text, context.stdout.style));
  for await (const chunk of artifacts.open(left.patch)) await sink.write(chunk);
  await sink.end();
  return EXIT.success;
}

/** With `--json`, what was opened is part of the result. */
async function printNotice(notice: ApplyNotice, options: Options, { stderr }: CliContext): Promise<void> {
  if (notice.kind !== 'opened' || options.json !== true) await stderr.write(renderApplyNotice(notice, stderr.style));
}

interface Printing {
  readonly found: FoundChanges;
  readonly request: ApplyRequest;
  readonly options: Options;
  readonly context: CliContext;
}

async function printApplied(
  applied: AppliedChanges,
  { found, request, options, context }: Printing,
): Promise<ExitCode> {
  const hasConflicts = applied.outcome === 'conflicts' || applied.outcome === 'conflict-markers';
  if (options.json === true) {
    const { repository, outcome, branch, base, commit, files, products, conflicts, before } = applied;
    const { stage, isPartial } = found.left;
    const told = { runId: found.runId, stage, partial: isPartial, repository, outcome, branch, base, commit };
    await context.stdout.write(`${JSON.stringify({ ...told, files, products, conflicts, before })}\n`);
    return hasConflicts ? EXIT.runFailed : EXIT.success;
  }
  if (hasConflicts) {
    const again = (way: string): string => writeApplyAgain({ ...found, request, machine: context }, way);
    const branch = again('--branch');
    throw describeConflicts(
      applied,
      context.advise(
        request.merges
          ? `Get the commits as a branch and merge it: ${branch}`
          : `Merge, with conflict markers: ${again('--3way')}. Or get the commits as a branch: ${branch}`,
      ),
    );
  }
  await context.stderr.write(renderApplied(applied));
  return EXIT.success;
}
