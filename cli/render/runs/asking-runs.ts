/** Runs of other hosts that wait for an answer, for people and for `--json`. */
import type { AskingRun, AskingRuns } from '../../../client/runs/asking-runs.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';
import { shortenRunId } from './runs-table.ts';

/** Stages that one line names. */
const MOST_STAGES = 3;
const MOST_SILENT = 5;

export interface AskingDisplay {
  readonly style: Style;
  readonly width: number;
  readonly advise: (text: string) => string;
}

/** Lines; empty: no run of another host waits. */
export function renderAskingRuns({ runs, silent, hasMore }: AskingRuns, options: AskingDisplay): string[] {
  const { style, advise } = options;
  const rows = runs.map((run) => [
    shortenRunId(sanitizeLine(run.runId)),
    sanitizeLine(run.host ?? '-'),
    sanitizeLine(run.name ?? '-'),
    describeStages(run),
  ]);
  return [
    ...(runs.length === 0
      ? []
      : [
          ...renderTable(['WAITS ON ANOTHER HOST', 'HOST', 'NAME', 'STAGES'], rows, options),
          `${style.cyan('help:')} ${advise('voidbox status RUN on that host shows the question. Answer it from any host: voidbox approve RUN STAGE')}`,
        ]),
    ...(silent.length === 0
      ? []
      : [style.yellow(`No worker answers for ${describeSilent(silent)}: the questions of these runs are unknown.`)]),
    ...(hasMore ? [style.dim('More runs may wait for an answer: only the latest open runs were asked.')] : []),
  ];
}

function describeStages({ stages }: AskingRun): string {
  return describeSome(stages, MOST_STAGES);
}

function describeSilent(runIds: readonly string[]): string {
  return describeSome(runIds, MOST_SILENT);
}

function describeSome(names: readonly string[], most: number): string {
  const more = names.length > most ? ` and ${names.length - most} more` : '';
  return `${names.slice(0, most).map(sanitizeLine).join(', ')}${more}`;
}
