import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { DamagedRun } from '../../../activities/ports/run-inspector.ts';
import type { CliContext } from '../../context.ts';
import { quoteRunId } from '../../../domain/run/run-id.ts';
import { formatRunId } from '../../../app/runs/run-id.ts';

/** Renders what `voidbox doctor` reports about runs with damaged files; no lines if there are no damaged runs. */
export function renderDamagedRuns(damaged: readonly DamagedRun[], { advise, stdout: { style } }: CliContext): string[] {
  const lines = damaged.flatMap(({ label: name, problem }) => {
    return [
      `  ${style.red('✗')} ${formatRunId(name)}  ${sanitizeLine(problem.message)}`,
      `    ${style.cyan('fix:')} ${advise(`restore that file from a backup, or move the run to damaged/: voidbox set-aside ${quoteRunId(name)}`)}`,
    ];
  });
  return lines.length === 0 ? [] : ['', style.bold('Damaged runs'), ...lines];
}
