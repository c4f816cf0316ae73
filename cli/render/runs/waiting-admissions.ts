/** Runs that no worker has admitted, for people and for `--json`. */
import type { WaitingAdmission, WaitingAdmissions } from '../../../client/runs/waiting-admissions.ts';
import { RUN_TASK_QUEUE } from '../../../workflows/messages.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge, formatDurationMs } from '../../../domain/units/duration.ts';
import type { Style } from '../text/style.ts';
import { shortenRunId } from './runs-table.ts';
import { renderTable } from '../text/table.ts';

/** A run that waits for admission in `--json`. Stable: fields are added, never renamed or removed. */
export interface AdmittingJson {
  readonly runId: string;
  readonly startedAt: string;
  readonly taskQueue: string;
  readonly reason: WaitingAdmission['reason'];
  /** Number of tries of admission, or of the first workflow task (`not-taken`); 0 before the first. */
  readonly attempt: number;
  /** Start of the latest try; null: none yet. */
  readonly triedAt: string | null;
  /** Start of the next try, or of a delayed run; null: it is not known, or a try is under way. */
  readonly nextAt: string | null;
  /** Null: no worker polled within the server's memory, or the server does not say. */
  readonly lastPollAt: string | null;
  readonly failure: { readonly code: string | null; readonly message: string } | null;
}

export interface AdmittingListJson {
  readonly runs: readonly AdmittingJson[];
  readonly hasMore: boolean;
}

export function toAdmittingJson({ runs, hasMore }: WaitingAdmissions): AdmittingListJson {
  return {
    hasMore,
    runs: runs.map(({ runId, taskQueue, reason, attempt, failure, ...times }) => ({
      runId,
      startedAt: timeOf(times.startedAtMs)!,
      taskQueue,
      reason,
      attempt,
      triedAt: timeOf(times.triedAtMs),
      nextAt: timeOf(times.nextAtMs),
      lastPollAt: timeOf(times.lastPollAtMs),
      failure,
    })),
  };
}

function timeOf(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}

const START_WORKER = 'Start a worker with the same TEMPORAL_* variables, on each host that runs VMs: voidbox worker';
const OTHER_QUEUE = `Workers of Voidbox poll task queue ${RUN_TASK_QUEUE}: start the run there, or start the worker that polls its own`;
const RESTART_STACK = 'The stack starts its worker again. If it does not: voidbox down, then voidbox up';

/** Task queues that one remedy names. */
const MOST_QUEUES = 5;

export interface AdmissionDisplay {
  readonly style: Style;
  readonly width: number;
  readonly nowMs: number;
  /** The server is not that of the embedded stack, which starts its worker again. */
  readonly isOwnServer: boolean;
  readonly advise: (text: string) => string;
}

/** Lines; empty: no run waits. */
export function renderWaitingAdmissions({ runs, hasMore }: WaitingAdmissions, options: AdmissionDisplay): string[] {
  const { style, nowMs } = options;
  const rows = runs.map((run) => [
    shortenRunId(sanitizeLine(run.runId)),
    formatAge(nowMs - run.startedAtMs),
    describeWait(run, nowMs),
  ]);
  const [heading = '', ...lines] = renderTable(['WAITS FOR ADMISSION', 'STARTED', ''], rows, options);
  return [
    ...(runs.length === 0 ? [] : [heading]),
    // Below its line and not in it, because a line of the table ends at the width of the terminal.
    ...lines.flatMap((line, at) => [line, ...failureLines(runs[at]!)]),
    ...remediesOf(runs, options).map((remedy) => `${style.cyan('help:')} ${remedy}`),
    ...(hasMore ? [style.dim('More runs may wait for admission: only the latest open runs were checked.')] : []),
  ];
}

/** A client may start a run in any task queue. Commands of Voidbox start workers of one queue. */
function remediesOf(runs: readonly WaitingAdmission[], { isOwnServer, advise }: AdmissionDisplay): readonly string[] {
  const queues = new Set(runs.flatMap(({ reason, taskQueue }) => (reason === 'no-worker' ? [taskQueue] : [])));
  const needsOurs = queues.delete(RUN_TASK_QUEUE);
  const others = [...queues].slice(0, MOST_QUEUES).map((queue) => sanitizeLine(queue));
  const more = queues.size > others.length ? ` and ${queues.size - others.length} more` : '';
  return [
    ...(needsOurs ? [advise(isOwnServer ? START_WORKER : RESTART_STACK)] : []),
    ...(others.length > 0 ? [`no worker polls task queue ${others.join(', ')}${more}. ${OTHER_QUEUE}`] : []),
  ];
}

function failureLines({ failure }: WaitingAdmission): string[] {
  if (failure === null) return [];
  const code = failure.code === null ? '' : ` (${sanitizeLine(failure.code)})`;
  return [`  ${sanitizeLine(failure.message)}${code}`];
}

function timesText(count: number): string {
  if (count === 1) return 'once';
  return count === 2 ? 'twice' : `${count} times`;
}

/** One line: why the run is not admitted yet. */
export function describeWait(run: WaitingAdmission, nowMs: number): string {
  const { reason, attempt, triedAtMs, nextAtMs, lastPollAtMs, failure } = run;
  const before = failure === null ? '' : `; admission failed ${timesText(attempt - 1)} before`;
  const queue = `task queue ${sanitizeLine(run.taskQueue)}`;
  const formatTimeLeft = (atMs: number | null): string => formatDurationMs(Math.max(0, (atMs ?? nowMs) - nowMs));
  switch (reason) {
    case 'delayed':
      return `the run starts in ${formatTimeLeft(nextAtMs)}`;
    case 'no-worker':
      return lastPollAtMs === null
        ? `no worker polls ${queue}${before}`
        : `no worker has polled ${queue} for ${formatDurationMs(nowMs - lastPollAtMs)}${before}`;
    case 'not-taken':
      return `a worker polls ${queue} and has not taken the run yet${failure === null && attempt > 1 ? `; its first task failed ${timesText(attempt - 1)}` : before}`;
    case 'admitting':
      return `admission has been running for ${formatDurationMs(Math.max(0, nowMs - (triedAtMs ?? nowMs)))}${before}`;
    case 'retrying':
      return `admission failed ${timesText(attempt - 1)}, next try in ${formatTimeLeft(nextAtMs)}`;
    case 'paused':
      return 'admission is paused';
  }
}
