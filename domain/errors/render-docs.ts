import { LOST_VM_ATTEMPTS } from '../plan/plan.ts';
import type { ErrorCodeInfo, Retry } from './code-info.ts';
import { ERROR_CODES } from './codes.ts';

const PARTS: readonly { readonly kind: ErrorCodeInfo['kind']; readonly title: string; readonly text: string }[] = [
  {
    kind: 'author',
    title: 'Mistakes in a spec',
    text: 'Diagnostics: all of them are reported at once, each with `file:line:column`. `voidbox validate` shows them without starting anything; exit code 2.',
  },
  {
    kind: 'outcome',
    title: 'How a stage can fail',
    text: 'The stage ended in a way that the spec foresees. `retry` of the stage is about these; exit code 1.',
  },
  {
    kind: 'world',
    title: 'What can break around a run',
    text: 'Something outside of the spec and its commands. Those that are tried again are tried again by themselves, without using up `retry`.',
  },
  {
    kind: 'command',
    title: 'What the command line says itself',
    text: 'A command could not do what was typed; no run ends with one of these. Exit code 2 for what the caller changes, 3 for what the machine lacks, 1 for a bug.',
  },
];

const AGAIN: Readonly<Record<Retry, string>> = {
  temporal: 'It is tried again.',
  'new-vm': `It is tried again with a new VM, up to ${LOST_VM_ATTEMPTS} times.`,
  never: 'It is not tried again.',
};

/** The text of docs/errors.md; a test keeps the file equal to it. */
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

function renderCode(code: string, { kind, retry, summary, remedy }: ErrorCodeInfo): string {
  const again = kind === 'world' ? [AGAIN[retry]] : [];
  return [`### \`${code}\``, [summary, ...again].join(' '), `*What to do:* ${remedy}`].join('\n\n');
}
