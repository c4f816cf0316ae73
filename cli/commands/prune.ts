import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import { formatBytes } from '../../domain/units/bytes.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';
import { NAMING_MS, prune, type PruneOptions, type PruneReport } from '../../store/prune.ts';
import { defineCommand } from '../command.ts';
import type { CliContext } from '../context.ts';
import { EXIT } from '../exit-code.ts';
import { mendRuns } from '../mend-runs.ts';
import { shownRunId } from '../run-id.ts';
import { pruneSessionFiles } from '../prune-sessions.ts';

interface Options {
  readonly olderThan?: number;
  readonly keepLast?: number;
  readonly artifactsNow?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const WEEK_MS = 7 * 86_400_000;

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option(
        '--older-than <age>',
        'keep runs that ended less long ago than this: 45s, 30m, 12h, 7d (default 7d, without --keep-last)',
        age,
      )
      .option('--keep-last <number>', 'keep this many of the runs that ended last', count)
      .option('--artifacts-now', 'delete artifacts that no run names without waiting for a day', false)
      .option('-n, --dry-run', 'say what would go, with sizes, and leave it')
      .addHelpText(
        'after',
        `
Each option that is given protects: with both, a run goes only when it is older and not among the last ones. (Up to
version 0.1.0 a run went when either named it.) Runs that have not ended and damaged runs stay in any case.
Artifacts are kept while a run names them. Of the others, those of the last day stay, since a run may be about to name
one; with --artifacts-now only those that were stored since a run began that has not ended.`,
      );
  },
  async execute(_args, options, context) {
    // A run that was terminated from outside ends only when somebody looks; it is not kept for ever for that.
    await mendRuns(await (await context.stores()).index.openRuns(), context);
    const dryRun = options.dryRun ?? false;
    const keepLast = options.keepLast ?? null;
    const olderThanMs = options.olderThan ?? (keepLast === null ? WEEK_MS : null);
    const artifactsNow = options.artifactsNow ?? false;
    const report = await pruneRuns(
      { olderThanMs, keepLast, artifactsNow, dryRun, nowMs: context.now().getTime() },
      context,
    );
    const skills = await pruneSessionFiles(context, { olderThanMs: options.olderThan ?? WEEK_MS, dryRun });
    if (options.json) {
      await context.stdout.write(
        `${JSON.stringify({ dryRun, ...report, sessions: skills.sessions, skills: skills.skills })}\n`,
      );
      return EXIT.success;
    }
    const verb = dryRun ? 'would delete' : 'deleted';
    const lines = report.removed.map(
      ({ runId, sizeBytes }) => `${verb} ${shownRunId(runId)} (${formatBytes(sizeBytes)})`,
    );
    const runs = `${counted(report.runs.length, 'run')} (${formatBytes(report.runBytes)})`;
    lines.push(`${verb} ${runs} and ${counted(report.artifacts, 'artifact')} (${formatBytes(report.artifactBytes)})`);
    if (report.youngArtifacts > 0) {
      const size = formatBytes(report.youngArtifactBytes);
      const until = options.artifactsNow
        ? 'while a run goes on that began before: it may be about to name them; prune again then'
        : 'until a day old; prune again then, or with --artifacts-now';
      lines.push(
        `${counted(report.youngArtifacts, 'artifact')} (${size}) that no run names ${report.youngArtifacts === 1 ? 'stays' : 'stay'} ${until}`,
      );
    }
    if (report.damaged.length > 0)
      lines.push(context.advise(`${counted(report.damaged.length, 'damaged run')} stayed. See: voidbox doctor`));
    if (skills.sessions.length > 0)
      lines.push(`${verb} what ${counted(skills.sessions.length, 'session')} left: ${skills.sessions.join(', ')}`);
    if (skills.skills.length > 0)
      lines.push(`${verb} code of skills that no session runs: ${counted(skills.skills.length, 'bundle')}`);
    if (skills.kept !== null) lines.push(context.advise(skills.kept));
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

/** What was stored just now may be about to be named: with --artifacts-now that is waited for, and looked at again. */
async function pruneRuns(options: PruneOptions, context: CliContext): Promise<PruneReport> {
  const { stateDir } = context.env;
  const first = await prune(stateDir, options);
  if (options.artifactsNow !== true || options.dryRun || first.youngArtifacts === 0) return first;
  await context.stderr.write(
    `==> artifacts of the last ${NAMING_MS / 1_000} s may be about to be named: waiting that long\n`,
  );
  await sleep(NAMING_MS);
  const { artifacts, artifactBytes, youngArtifacts, youngArtifactBytes } = await prune(stateDir, {
    ...options,
    olderThanMs: null,
    keepLast: null,
    nowMs: options.nowMs + NAMING_MS,
  });
  return {
    ...first,
    artifacts: first.artifacts + artifacts,
    artifactBytes: first.artifactBytes + artifactBytes,
    youngArtifacts,
    youngArtifactBytes,
  };
}

function counted(number: number, what: string): string {
  return number === 1 ? `1 ${what}` : `${number} ${what}s`;
}

function age(text: string): number {
  const ms = parseDurationMs(text);
  if (ms === null) throw new InvalidArgumentError('It is a number with s, m, h or d, like 12h or 7d.');
  return ms;
}

function count(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It is a number from 0.');
  return Number(text);
}
