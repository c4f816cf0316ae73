/** Compiles sources that the service reads itself: folders and outboxes. */
import { FOLDER_DEFAULTS, OUTBOX_DEFAULTS, TRIGGER_LIMITS } from '../../../delivery/trigger-defaults.ts';
import { parseOutboxTable } from '../../../delivery/outbox-table.ts';
import type { FolderSource, OutboxSource } from '../../../delivery/trigger.ts';
import { quote } from '../../../units/quote.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import { patternOf } from '../../read/file-pattern.ts';
import type { Spec } from '../../read/spec.ts';
import type { Problems } from '../../text/diagnostics.ts';

type TriggerSpec = Spec['on'][number];

const CONTROL = /\p{Cc}/u;

interface SourceContext {
  /** The trigger in a message. */
  readonly what: string;
  readonly problems: Problems;
}

/** Returns null if a mistake in the source was reported. */
export function compileFolder(
  { folder, batch }: Pick<TriggerSpec, 'batch'> & { readonly folder: NonNullable<TriggerSpec['folder']> },
  { what, problems }: SourceContext,
): FolderSource | null {
  const errorsBefore = problems.errorCount();
  const path = folder.path.value.replace(/\/+$/, '');
  const problem = folder.path.value === '' ? null : findPathProblem(path);
  if (problem !== null)
    problems.error(
      'spec/bad-value',
      folder.path.at,
      `\`path\` of ${what} is ${quote(folder.path.value)}, ${problem}`,
      'name one folder below `/` without links, such as `/srv/incoming`',
    );
  const match = folder.match?.value ?? FOLDER_DEFAULTS.match;
  const pattern = match === '' ? null : patternOf(match);
  if (folder.match !== null && pattern !== null && 'problem' in pattern)
    problems.error(
      'spec/bad-value',
      folder.match.at,
      `\`match\` of ${what}: ${pattern.problem}`,
      'write a path in the folder, such as `*.csv` or `**/*.csv`',
    );
  if (batch !== null)
    problems.error(
      'spec/bad-value',
      batch.at,
      `${what} has \`batch\`, and a run has at most one file as its input`,
      'remove `batch`; `rate` bounds the starts of runs',
    );
  if (problems.errorCount() > errorsBefore) return null;
  const { existing, everyMs } = folder;
  return {
    kind: 'folder',
    path,
    match,
    existing: existing?.value ?? FOLDER_DEFAULTS.existing,
    everyMs: everyMs ?? FOLDER_DEFAULTS.everyMs,
  };
}

/** Continues `path is "…", `. */
function findPathProblem(path: string): string | null {
  if (path === '') return 'which is the root of all folders';
  if (countUtf8Bytes(path) > TRIGGER_LIMITS.folderBytes)
    return `which has ${countUtf8Bytes(path)} bytes; at most ${TRIGGER_LIMITS.folderBytes} are allowed`;
  if (CONTROL.test(path)) return 'which has a control character';
  const parts = path.slice(1).split('/');
  return parts.some((part) => part === '' || part === '.' || part === '..') ? 'which is no plain path' : null;
}

/** Returns null if a mistake in the source was reported. */
export function compileOutbox(
  { secret, table, ca, everyMs }: NonNullable<TriggerSpec['outbox']>,
  { what, problems }: SourceContext,
): OutboxSource | null {
  // The reader has already reported an empty name.
  if (table.value === '') return null;
  if (parseOutboxTable(table.value) === null) {
    problems.error(
      'spec/bad-value',
      table.at,
      `\`table\` of ${what} is ${quote(table.value)}, which names no table`,
      'write `NAME` or `SCHEMA.NAME` with letters, digits and `_`, each at most 63 characters',
    );
    return null;
  }
  return {
    kind: 'outbox',
    secret: secret.value,
    table: table.value,
    ca: ca?.value ?? null,
    everyMs: everyMs ?? OUTBOX_DEFAULTS.everyMs,
  };
}
