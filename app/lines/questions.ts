import type { Question } from '../../domain/run/event.ts';
import { describeField } from '../../domain/run/approval-answer.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';
import { openQuestionsOf } from '../../store/open-questions.ts';
import type { RunView } from '../../store/run-view.ts';
import { renderCommand, quoteStageName } from '../runs/run-id.ts';
import type { LineStyle } from './line-style.ts';

/** On one line: what is asked, of whom, and until when. */
export function renderQuestion({ message, by, selfApproval, deadlineAtMs, onTimeout, item }: Question): string {
  const of = by.length === 0 ? '' : `asks ${by.map(sanitizeLine).join(', ')}`;
  const until = deadlineAtMs === null ? '' : `until ${timeText(deadlineAtMs)}, then ${describeTimeout(onTimeout)}`;
  const about = item === undefined ? '' : `item ${sanitizeLine(item)}`;
  const proven = selfApproval === false ? 'not answered by the token that started the run' : '';
  const notes = [about, of, proven, until].filter((each) => each !== '').join('; ');
  return `${sanitizeLine(message)}${notes === '' ? '' : ` (${notes})`}`;
}

/** The number of questions shown; as many items can ask as run at the same time. */
const SHOWN_QUESTIONS = 20;

/** Renders for `voidbox status` each open question, the fields of its answer, and the command that answers it. */
export function renderQuestions(
  view: RunView,
  {
    style,
    advise,
    nowMs,
  }: { readonly style: LineStyle; readonly advise: (text: string) => string; readonly nowMs: number },
): string[] {
  const { runId } = view;
  return openQuestionsOf(view).flatMap(({ name: written, question }, index) => {
    if (index > SHOWN_QUESTIONS) return [];
    const name = sanitizeLine(written);
    if (index === SHOWN_QUESTIONS) return ['', style.dim(`and more that wait for answers, beginning with ${name}`)];
    const typed = quoteStageName(written);
    const { deadlineAtMs } = question;
    const left =
      deadlineAtMs === null
        ? []
        : [style.dim(`  ${deadlineAtMs <= nowMs ? 'due now' : `${formatDurationMs(deadlineAtMs - nowMs)} left`}`)];
    const fields = question.fields.map((field) => {
      const facts = [describeField(field), ...(field.required ? [] : ['optional'])].map(sanitizeLine).join(', ');
      const description = field.description === '' ? '' : `: ${sanitizeLine(field.description)}`;
      return `  field ${style.bold(field.name)} (${facts})${description}`;
    });
    const given = question.fields
      .filter(({ required }) => required)
      .map((field) => `--field ${field.name}=${field.type === 'choice' ? field.choices[0]! : '…'}`)
      .join(' ');
    return [
      '',
      `${style.yellow('?')} ${style.bold(name)}: ${renderQuestion(question)}`,
      ...left,
      ...fields,
      `  ${style.cyan('answer:')} ${advise(renderCommand('approve', runId, { names: typed, options: sanitizeLine(given) }))}`,
      `  ${style.cyan('or:')}     ${advise(renderCommand('reject', runId, { names: typed, options: '--comment WHY' }))}`,
    ];
  });
}

function describeTimeout(onTimeout: Question['onTimeout']): string {
  return onTimeout === 'approve' ? 'approved' : onTimeout === 'reject' ? 'rejected' : 'failed';
}

function timeText(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+Z$/, 'Z');
}
