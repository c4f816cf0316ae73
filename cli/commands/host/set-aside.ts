import type { DamagedRun } from '../../../activities/ports/run-inspector.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { leaveBeginning } from '../../../app/runs/beginning-runs.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';

interface Options {
  readonly all?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('[run...]', 'ids of damaged runs, or unique prefixes')
      .option('--all', 'move every damaged run, except runs without events that may still be running')
      .option('-n, --dry-run', 'show which runs would be moved, and change nothing');
  },
  async execute(names, options, context) {
    if ((names.length === 0) === (options.all !== true)) {
      throw createUsageError('name damaged runs, or pass --all', 'List them: voidbox doctor');
    }
    const { inspector, index } = await context.stores();
    const damaged = await inspector.findDamaged();
    const known = await index.idsFrom('');
    // A run that the user names is set aside without this check, because the user has decided.
    const { ended: chosen, left } =
      options.all === true
        ? await leaveBeginning(damaged, context)
        : { ended: [...new Set(names.map((name) => choose(name, damaged, known)))], left: [] };
    const dryRun = options.dryRun ?? false;
    const report: { runId: string; problem: string; folder: string }[] = [];
    for (const run of chosen) {
      report.push({
        runId: run.label,
        problem: run.problem.message,
        folder: dryRun ? run.place : await inspector.setAside(run),
      });
    }
    if (options.json) {
      const leftRuns = left.map(({ run, reason }) => ({ runId: run.label, reason }));
      await context.stdout.write(`${JSON.stringify({ dryRun, runs: report, left: leftRuns })}\n`);
    } else if (report.length + left.length === 0) await context.stdout.write('No run is damaged.\n');
    else {
      const lines = report.map(({ runId, problem, folder }) =>
        dryRun
          ? `would set ${formatRunId(runId)} aside: ${sanitizeLine(problem)}`
          : `set ${formatRunId(runId)} aside, to ${folder}`,
      );
      for (const { run, reason } of left) {
        lines.push(`did not move ${formatRunId(run.label)}: ${reason}`);
        lines.push(`  ${context.advise(`to move it anyway: voidbox set-aside ${quoteRunId(run.label)}`)}`);
      }
      await context.stdout.write(`${lines.join('\n')}\n`);
    }
    return EXIT.success;
  },
});

/** @throws AppError for a name that no run or several runs have, or for an undamaged run */
function choose(name: string, damaged: readonly DamagedRun[], known: readonly string[]): DamagedRun {
  const exact = damaged.find((run) => run.label === name);
  if (exact !== undefined) return exact;
  if (known.includes(name))
    throw createUsageError(`run ${name} is not damaged`, `See it: voidbox status ${quoteRunId(name)}`);
  const matches = name === '' ? [] : damaged.filter((run) => run.label.startsWith(name));
  if (matches.length === 1 && matches[0] !== undefined) return matches[0];
  const listed = (matches.length > 0 ? matches : damaged).slice(0, 5).map((run) => `  ${formatRunId(run.label)}`);
  if (matches.length > 1)
    throw createUsageError(
      `\`${name}\` matches ${matches.length} damaged runs`,
      ['Use a longer prefix of one of these ids:', ...listed].join('\n'),
    );
  throw createUsageError(
    `there is no damaged run \`${name}\``,
    listed.length === 0 ? 'No run is damaged.' : ['Damaged runs:', ...listed].join('\n'),
  );
}
