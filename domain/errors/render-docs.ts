import { LOST_VM_ATTEMPTS } from './code-info.ts';
import type { ErrorCodeInfo, Retry } from './code-info.ts';
import { ERROR_CODES } from './codes.ts';

const PARTS: readonly { readonly kind: ErrorCodeInfo['kind']; readonly title: string; readonly text: string }[] = [
  {
    kind: 'author',
    title: 'Mistakes in a spec',
    text: 'Voidbox reports all diagnostics at once, each with `file:line:column`. `voidbox validate` shows them without starting a run; exit code 2.',
  },
  {
    kind: 'outcome',
    title: 'How a stage can fail',
    text: 'A stage ended without success. The `retry` of the stage applies to these; exit code 1.',
  },
  {
    kind: 'world',
    title: 'What can break around a run',
    text: 'Failures outside of the spec and its commands. Retries of these are automatic and do not count against `retry`.',
  },
  {
    kind: 'command',
    title: 'Errors of the command line',
    text: 'A command failed; no run ends with one of these. Exit code 2: the caller can fix it; 3: the machine or the server lacks something; 1: a bug.',
  },
  {
    kind: 'request',
    title: 'Errors of the HTTP API',
    text: 'The API refused a request; no run ends with one of these. [The HTTP API](api-http.md#errors) lists the status codes.',
  },
  {
    kind: 'delivery',
    title: 'Why a delivery starts no run',
    text: 'A trigger accepted an event, and no run starts for it. `voidbox delivery show` prints the code. [Deliveries](deliveries.md) explains the states.',
  },
  {
    kind: 'notification',
    title: 'Why a notification is not sent',
    text: 'A receiver did not get a notification. `voidbox notification show` prints the code. [Notifications](notifications.md) says when the service tries again.',
  },
];

const AGAIN: Readonly<Record<Retry, string>> = {
  temporal: 'It is retried.',
  'new-vm': `It is retried with a new VM, at most ${LOST_VM_ATTEMPTS} times.`,
  never: 'It is not retried.',
};

/** The text of docs/reference/errors.md; a test keeps the file equal to it. */
export function renderErrorDocs(): string {
  const codes = Object.entries(ERROR_CODES) as [string, ErrorCodeInfo][];
  const parts = PARTS.map(({ kind, title, text }) => {
    const entries = codes.filter(([, info]) => info.kind === kind).map(([code, info]) => renderCode(code, info));
    return [`## ${title}`, text, ...entries].join('\n\n');
  });
  const head = [
    '# Error codes',
    'Generated from `domain/errors/codes.ts`. A code is a contract: it is the type of the failure in Temporal, the reason that the command line prints, and a heading here.',
  ];
  return `${[...head, ...parts].join('\n\n')}\n`;
}

/** Describes which retry follows the code; null: Voidbox never retries codes of this kind. */
export function describeRetry({ kind, retry }: ErrorCodeInfo): string | null {
  return kind === 'world' ? AGAIN[retry] : null;
}

function renderCode(code: string, info: ErrorCodeInfo): string {
  const again = describeRetry(info);
  const text = again === null ? info.summary : `${info.summary} ${again}`;
  return [`### \`${code}\``, text, `*What to do:* ${info.remedy}`].join('\n\n');
}
