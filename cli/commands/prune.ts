import { InvalidArgumentError } from 'commander';
import { formatBytes } from '../../domain/units/bytes.ts';
import { parseDurationMs } from '../../domain/units/duration.ts';
import { createFileEventStore } from '../../store/file/event-store.ts';
import { prune } from '../../store/prune.ts';
import { defineCommand } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { readMendedViews } from '../mend-runs.ts';
import { pruneSessionFiles } from '../prune-sessions.ts';

interface Options {
  readonly olderThan?: number;
  readonly keepLast?: number;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

const WEEK_MS = 7 * 86_400_000;

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option('--older-than <age>', 'delete runs that ended longer ago than this: 45s, 30m, 12h, 7d (default 7d, without --keep-last)', age)
      .option('--keep-last <number>', 'keep this many of the runs that ended last and delete the others', count)
      .option('-n, --dry-run', 'say what would go and leave it');
  },
  async execute(_args, options, context) {
    const store = createFileEventStore(context.env.stateDir);
    // A run that was terminated from outside ends only when somebody looks; it is not kept for ever for that.
    await readMendedViews(await store.listRuns(), store, context);
    const dryRun = options.dryRun ?? false;
    const keepLast = options.keepLast ?? null;
    const olderThanMs = options.olderThan ?? (keepLast === null ? WEEK_MS : null);
    const report = await prune(context.env.stateDir, { olderThanMs, keepLast, dryRun, nowMs: context.now().getTime() });
    const skills = await pruneSessionFiles(context, { olderThanMs: options.olderThan ?? WEEK_MS, dryRun });
    if (options.json) {
      await context.stdout.write(`${JSON.stringify({ dryRun, ...report, sessions: skills.sessions, skills: skills.skills })}\n`);
      return EXIT.success;
    }
    const verb = dryRun ? 'would delete' : 'deleted';
    const lines = report.runs.map((runId) => `${verb} ${runId}`);
    lines.push(`${verb} ${counted(report.runs.length, 'run')} and ${counted(report.artifacts, 'artifact')} (${formatBytes(report.artifactBytes)})`);
    if (report.youngArtifacts > 0) {
      const size = formatBytes(report.youngArtifactBytes);
      lines.push(
        `${counted(report.youngArtifacts, 'artifact')} (${size}) that no run names ${report.youngArtifacts === 1 ? 'stays' : 'stay'} until a day old; prune again then`,
      );
    }
    if (skills.sessions.length > 0) lines.push(`${verb} what ${counted(skills.sessions.length, 'session')} left: ${skills.sessions.join(', ')}`);
    if (skills.skills.length > 0) lines.push(`${verb} code of skills that no session runs: ${counted(skills.skills.length, 'bundle')}`);
    if (skills.kept !== null) lines.push(context.advise(skills.kept));
    await context.stdout.write(`${lines.join('\n')}\n`);
    return EXIT.success;
  },
});

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
