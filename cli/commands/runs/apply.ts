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
  configure: (command) => {
    command
      .argument('<run>', 'a run id, a unique prefix of one, or `latest`')
      .option(
        '-s, --stage <stage>',
        "whose changes, of an item 'fixes[1].work'; needed if several stages left changes that no other stage uses",
      )
      .option('--partial', 'what the agent of a stage changed that failed or was cancelled')
      .option(
        '--branch [=name]',
        'make a branch of its commits, `voidbox/RUN/STAGE` without a name, and change no file',
      )
      .option('--patch', 'print the patch, and change nothing')
      .option('--check', 'say whether it applies, and change nothing')
      .option('--3way', 'merge files that changed on both sides, and leave conflict markers in those that conflict')
      .option(
        '-r, --repository <folder>',
        'the top folder of the repository that gets them; by default the one that the workspace came from, else the current folder',
      )
      .addHelpText(
        'after',
        '\nShows what has changed, then changes files of the working tree; nothing is staged or committed. All applies or nothing does: exits with 1 if a file conflicts. With --3way all files are written; exits with 1 if one of them has conflict markers.',
      );
  },
  async execute([text = ''], options, context) {
    const mode = modeOf(options);
    const runId = await findRunHere('apply', text, context);
    const choice = { stage: options.stage ?? null, isPartial: options.partial === true };
    const found = await findChanges(runId, choice, context);
    if (found.leftOut.length > 0 && options.json !== true)
      await context.stderr.write(
        `${context.advise(`changes of agents that did not succeed are left out (${listStages(found.leftOut)}): voidbox apply --partial ${quoteRunId(runId)}`)}\n`,
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
    throw createUsageError(`--${modes[0]!} and --${modes[1]!} exclude each other`, 'Leave one of them out.');
  if (patch === true && json === true) throw createUsageError('--patch prints a patch, and --json excludes it');
  if (merges === true && (branch !== undefined || patch === true))
    throw createUsageError(`--3way writes files, and --${modes[0]!} excludes it`, 'Leave one of them out.');
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
          ? `Take the commits as a branch and merge it: ${branch}`
          : `Merge, with conflict markers: ${again('--3way')}. Or take the commits as a branch: ${branch}`,
      ),
    );
  }
  await context.stderr.write(renderApplied(applied));
  return EXIT.success;
}
