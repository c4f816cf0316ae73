import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError } from 'commander';
import { formatBytes } from '../../../domain/units/bytes.ts';
import { parseDurationMs } from '../../../domain/units/duration.ts';
import type { PruneOptions, PruneReport } from '../../../activities/ports/run-pruner.ts';
import { NAMING_MS } from '../../../store/prune-times.ts';
import { defineCommand } from '../../command.ts';
import type { CliContext } from '../../context.ts';
import { EXIT } from '../../exit-code.ts';
import { pruneSnapshots } from '../../../app/snapshots/prune-snapshots.ts';
import { repairRuns } from '../../../app/runs/repair-runs.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';
import { prunePrepared } from '../../../app/snapshots/prune-prepared.ts';
import { renderPrunedPrepared } from '../../render/host/prepared-sandboxes.ts';
import { renderPrunedSnapshots } from '../../render/host/snapshots.ts';
import { pruneSessionFiles } from '../../skills/prune-sessions.ts';

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
        'keep runs that ended within this time: 45s, 30m, 12h, 7d (default: 7d, unless --keep-last is given)',
        age,
      )
      .option('--keep-last <number>', 'keep this many of the most recently ended runs', count)
      .option('--artifacts-now', 'delete unreferenced artifacts now (default: after a day)')
      .option('-n, --dry-run', 'show what would be deleted, with sizes, and delete nothing')
      .addHelpText(
        'after',
        `
Each option protects runs: with both, a run is deleted only if it is older and not among the last ones. Runs that
have not ended and damaged runs are never deleted.
Artifacts are kept while a run references them. Unreferenced ones are kept for a day, since a run may be about to
reference them; with --artifacts-now, only those stored since the oldest open run began are kept.
Snapshots of booted guests are deleted if no VM can start from them: damaged ones, those of earlier boots of the
host, and those of replaced files. Prepared sandboxes are listed and stay: voidbox snapshot delete ID deletes one. Folders that a killed process has
left while it made one are deleted.`,
      );
  },
  async execute(_args, options, context) {
    // A run that was terminated from outside gets its end only when a command reads it. Repair it here, or it would be
    // kept for ever.
    await repairRuns(await (await context.stores()).index.openRuns(), context);
    const dryRun = options.dryRun ?? false;
    const keepLast = options.keepLast ?? null;
    const olderThanMs = options.olderThan ?? (keepLast === null ? WEEK_MS : null);
    const artifactsNow = options.artifactsNow ?? false;
    const report = await pruneRuns(
      { olderThanMs, keepLast, artifactsNow, dryRun, nowMs: context.now().getTime() },
      context,
    );
    const skills = await pruneSessionFiles(context, { olderThanMs: options.olderThan ?? WEEK_MS, dryRun });
    const snapshots = await pruneSnapshots(context.env, { dryRun, nowMs: context.now().getTime() });
    const prepared = await prunePrepared(context.env, { dryRun, nowMs: context.now().getTime() });
    if (options.json) {
      const preparedKept = prepared.kept.sandboxes.map(({ record: { id, name = null, usedBytes } }) => ({
        id,
        name,
        sizeBytes: usedBytes,
      }));
      const preparedRemains = {
        count: prepared.removed.length,
        sizeBytes: prepared.removed.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
      };
      await context.stdout.write(
        `${JSON.stringify({ dryRun, ...report, sessions: skills.sessions, skills: skills.skills, sessionsKept: skills.kept, snapshots: snapshots.removed.map(({ key, state, sizeBytes }) => ({ key, state, sizeBytes })), snapshotsKept: snapshots.problem, preparedKept, preparedRemains })}\n`,
      );
      return EXIT.success;
    }
    const verb = dryRun ? 'would delete' : 'deleted';
    const lines = report.removed.map(
      ({ runId, sizeBytes }) => `${verb} ${formatRunId(runId)} (${formatBytes(sizeBytes)})`,
    );
    const runs = `${formatCount(report.runs.length, 'run')} (${formatBytes(report.runBytes)})`;
    lines.push(
      `${verb} ${runs} and ${formatCount(report.artifacts, 'artifact')} (${formatBytes(report.artifactBytes)})`,
    );
    if (report.youngArtifacts > 0) {
      const size = formatBytes(report.youngArtifactBytes);
      const until = options.artifactsNow
        ? 'while a run that began earlier is open and may still reference them; prune again when it has ended'
        : 'until a day old; prune again then, or pass --artifacts-now';
      lines.push(
        `${formatCount(report.youngArtifacts, 'artifact')} (${size}) without a reference ${report.youngArtifacts === 1 ? 'stays' : 'stay'} ${until}`,
      );
    }
    if (report.damaged.length > 0)
      lines.push(context.advise(`${formatCount(report.damaged.length, 'damaged run')} stayed. See: voidbox doctor`));
    if (skills.sessions.length > 0)
      lines.push(`${verb} files of ${formatCount(skills.sessions.length, 'session')}: ${skills.sessions.join(', ')}`);
    if (skills.skills.length > 0)
      lines.push(`${verb} code of step machines that no session runs: ${formatCount(skills.skills.length, 'bundle')}`);
    if (skills.kept !== null) lines.push(context.advise(skills.kept));
    lines.push(...renderPrunedSnapshots(snapshots, verb), ...renderPrunedPrepared(prepared, verb));
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

/**
 * Prunes. With --artifacts-now it waits and prunes again, because a young artifact may get a reference in the next
 * seconds.
 */
async function pruneRuns(options: PruneOptions, context: CliContext): Promise<PruneReport> {
  const { pruner } = await context.stores();
  const first = await pruner.prune(options);
  if (options.artifactsNow !== true || options.dryRun || first.youngArtifacts === 0) return first;
  await context.stderr.write(
    `==> artifacts of the last ${NAMING_MS / 1_000} s may still get a reference: waiting that long\n`,
  );
  await sleep(NAMING_MS);
  const { artifacts, artifactBytes, youngArtifacts, youngArtifactBytes } = await pruner.prune({
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

function formatCount(number: number, what: string): string {
  return number === 1 ? `1 ${what}` : `${number} ${what}s`;
}

function age(text: string): number {
  const ms = parseDurationMs(text);
  if (ms === null) throw new InvalidArgumentError('It must be a number with s, m, h or d, such as 12h or 7d.');
  return ms;
}

function count(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 0.');
  return Number(text);
}
