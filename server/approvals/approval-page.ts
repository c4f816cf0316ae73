/**
 * The pages of links to questions: HTML without a script. Texts of guests and of authors are hostile, so each passes
 * through `escapeText`.
 */
import { createHash } from 'node:crypto';
import type { LinkReceipt, OpenedLink } from '../../app/approval-links/answer-link.ts';
import type { ApprovalField } from '../../domain/plan/plan.ts';
import { ANSWER_LIMITS } from '../../domain/run/approval-answer.ts';
import { sanitize, sanitizeLine } from '../../domain/security/sanitize.ts';

const STYLE = `:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:40rem;margin:2rem auto;padding:0 1rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid;border-radius:.4rem;padding:.8rem;font:inherit}
label{display:block;margin:.8rem 0}
input,select,textarea{display:block;box-sizing:border-box;width:100%;font:inherit;padding:.4rem}
button{font:inherit;padding:.5rem 1.5rem;margin:.5rem .5rem 0 0}
.problem{border:1px solid;border-radius:.4rem;padding:.5rem .8rem}`;

/** The form sends to this server only, and no page may contain this one. */
export const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-store',
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; '),
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex, nofollow',
} as const;

const MARKS: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Makes a text that no browser reads as a tag, an attribute or a character reference. */
export function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (mark) => MARKS[mark]!);
}

function escapeLine(text: string): string {
  return escapeText(sanitizeLine(text));
}

/** The prefix of the names of fields in the form. */
export const FIELD_PREFIX = 'field.';

/** @param problem  why the answer before was refused; null: no answer was refused */
export function renderQuestion({ runId, name, as, question: asked }: OpenedLink, problem: string | null): string {
  const { question } = asked;
  const item = question.item === undefined ? '' : `<p>Item: ${escapeLine(question.item)}</p>`;
  const refused = problem === null ? '' : `<p class="problem" role="alert">${escapeLine(problem)}</p>`;
  const until =
    question.deadlineAtMs === null
      ? ''
      : `<p>Answer before ${escapeLine(new Date(question.deadlineAtMs).toISOString())}.</p>`;
  return renderPage(
    `${sanitizeLine(asked.name)} waits for an answer`,
    `<p>Run ${escapeLine(runId)} of ${escapeLine(name)}, stage ${escapeLine(asked.name)}</p>${item}
<pre>${escapeText(sanitize(question.message))}</pre>
${refused}<form method="post" autocomplete="off">
${DISABLED_BUTTON}
${question.fields.map(renderField).join('\n')}
<label>Comment (optional)<textarea name="comment" rows="3" maxlength="${ANSWER_LIMITS.commentCharacters}"></textarea></label>
<p>You answer as ${escapeLine(as)}. The link answers once.</p>${until}
<button name="decision" value="approve">Approve</button>
<button name="decision" value="reject" formnovalidate>Reject</button>
</form>`,
  );
}

/** The Enter key in a field presses the first button of a form, and must not approve. */
const DISABLED_BUTTON = '<button disabled hidden></button>';

function renderField(field: ApprovalField): string {
  const { name, type, description, choices } = field;
  const required = field.required ? ' required' : '';
  const key = `name="${FIELD_PREFIX}${escapeText(name)}"${required}`;
  const about = `${escapeLine(name)}${description === '' ? '' : `: ${escapeLine(description)}`}`;
  const label = `${about}${field.required ? '' : ' (optional)'}`;
  const offered = type === 'boolean' ? ['true', 'false'] : choices;
  const options = ['', ...offered].map((text) => `<option value="${escapeText(text)}">${escapeLine(text)}</option>`);
  const control =
    type === 'boolean' || type === 'choice'
      ? `<select ${key}>${options.join('')}</select>`
      : `<input ${key}${type === 'number' ? ' inputmode="decimal"' : ''}>`;
  return `<label>${label}${control}</label>`;
}

export function renderReceipt(runId: string, { stage, decision, by }: LinkReceipt): string {
  const done = decision === 'approve' ? 'Approved' : 'Rejected';
  const text = `${done} ${sanitizeLine(stage)}`;
  return renderPage(text, `<p>${escapeLine(`${text} of run ${runId}${by === null ? '' : ` as ${by}`}.`)}</p>`);
}

/** Equal for every link that opens nothing. */
export function renderNoLink(): string {
  return renderPage(
    'This link does not work',
    '<p>It is unknown, it has expired, it was used, or its question has an answer. Ask for another link.</p>',
  );
}

/** @param title  a text of one line */
function renderPage(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeText(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeText(title)}</h1>
${body}
</body>
</html>
`;
}
