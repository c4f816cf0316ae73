import type { SessionView } from '../../../activities/contract-session.ts';
import type { StepRecord } from '../../../domain/step-machine/records.ts';
import type { PromptResult, SessionResult } from '../../../domain/step-machine/result.ts';
import { sanitize, sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatAge } from '../../../domain/units/duration.ts';
import { formatIsoTime } from '../../../app/json/session-json.ts';
import type { ListedSession } from '../../../client/sessions/list.ts';
import type { WaitingSession } from '../../../client/sessions/waiting-sessions.ts';
import type { Style } from '../text/style.ts';
import { renderTable } from '../text/table.ts';

/**
 * Renders the result of a session as text. Prompts contain text of others and are sanitized. `next`: the command that
 * answers.
 */
export function renderResult(session: string, result: SessionResult, next: string, style: Style): string[] {
  switch (result.kind) {
    case 'prompt': {
      const turn = result.turn === undefined ? '' : ` --turn ${result.turn}`;
      return [
        style.dim(`session ${session}, step ${sanitizeLine(result.step)}`),
        ...(result.preamble === undefined ? [] : [sanitize(result.preamble)]),
        sanitize(result.prompt),
        ...(result.human === undefined ? [] : [style.dim(`This step ${describeWait(result.human)}`)]),
        ...(result.schema === null ? [] : [style.dim(`Answer: ${sanitizeLine(JSON.stringify(result.schema))}`)]),
        ...(result.open ?? []).map((one) => style.dim(`Also open: step ${sanitizeLine(one.step)}, turn ${one.turn}`)),
        style.dim(`Next: ${next} --step ${sanitizeLine(result.step)}${turn} --output JSON`),
      ];
    }
    case 'done':
      return [style.dim(`session ${session} is done`), sanitize(textOf(result.finalOutput))];
    case 'waiting':
      return [
        `session ${session} waits at step ${sanitizeLine(result.step)} until ${new Date(result.dueMs).toISOString()}`,
      ];
    case 'redirect':
      return [`session ${session} ended with a redirect to ${sanitizeLine(result.redirect)}`];
    case 'error':
      return [
        `${style.red(`${result.error}:`)} ${sanitize(result.message)}`,
        ...(result.retry
          ? [`  The step can be answered again: ${next} --step ${sanitizeLine(result.step)} --output JSON`]
          : []),
      ];
  }
}

export function renderSession(view: SessionView, next: string, style: Style): string[] {
  const { session, current } = view;
  // A session that was not opened runs no code.
  const code =
    view.codeHash === ''
      ? ''
      : `  ${sanitizeLine(view.skill)} ${sanitizeLine(view.version)} (code ${view.codeHash.slice(0, 12)})`;
  return [
    `${style.bold(session)}${code}: ${view.status}`,
    ...view.open.map(
      ({ step, phase, turn, human }) =>
        `  ${sanitizeLine(step)}  ${human === undefined ? phase : describeWait(human)}, turn ${turn}`,
    ),
    ...(view.blocked === null ? [] : [`  ${style.red('blocked:')} ${sanitize(view.blocked)}`]),
    ...Object.entries(view.visits).map(([step, count]) => style.dim(`  visited ${sanitizeLine(step)} ${count} times`)),
    ...(view.last === null ? [] : [`  last: ${renderRecord(view.last, style)}`]),
    ...(current === null || view.status === 'opening' ? [] : ['', ...renderResult(session, current, next, style)]),
  ];
}

export function renderSessions(
  sessions: readonly ListedSession[],
  options: { readonly style: Style; readonly width: number; readonly nowMs: number },
): string[] {
  const rows = sessions.map(({ session, skill, state, startedAtMs }) => [
    sanitizeLine(session),
    sanitizeLine(skill ?? '-'),
    state,
    formatAge(options.nowMs - startedAtMs),
  ]);
  return renderTable(['SESSION', 'SKILL', 'STATE', 'STARTED'], rows, options);
}

/** One line for each step at which a person is asked. */
export function renderWaiting(
  sessions: readonly WaitingSession[],
  options: { readonly style: Style; readonly width: number; readonly nowMs: number },
): string[] {
  const rows = sessions.flatMap(({ session, skill, waiting, startedAtMs }) =>
    waiting.map(({ step, assignee, dueMs }) => [
      sanitizeLine(session),
      sanitizeLine(skill ?? '-'),
      sanitizeLine(step),
      sanitizeLine(assignee ?? 'anyone'),
      formatIsoTime(dueMs) ?? 'no deadline',
      formatAge(options.nowMs - startedAtMs),
    ]),
  );
  return renderTable(['SESSION', 'SKILL', 'STEP', 'WAITS FOR', 'UNTIL', 'STARTED'], rows, options);
}

function describeWait({ assignee, dueMs }: NonNullable<PromptResult['human']>): string {
  const until = formatIsoTime(dueMs ?? null);
  return `waits for ${sanitizeLine(assignee ?? 'a person')}${until === null ? ', without a deadline' : ` until ${until}`}`;
}

export function renderRecord({ turn, step, response, result, failures }: StepRecord, style: Style): string {
  const gave = JSON.stringify(result) === JSON.stringify(response) ? '' : ` -> ${textOf(result)}`;
  const failed = failures === undefined ? '' : style.red(` (${failures.length} failed attempts)`);
  return `${turn} ${sanitizeLine(step)}: ${sanitizeLine(textOf(response) + gave)}${failed}`;
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing');
}
