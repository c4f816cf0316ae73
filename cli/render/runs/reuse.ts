/** Renders, before a run starts, which results of an earlier run it reuses, and why the other stages run. */
import type { AgainBecause, Reuse } from '../../../domain/pipeline/reuse.ts';
import { describeOrigin, type RunOrigin } from '../../../domain/run/origin.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Style } from '../text/style.ts';

/** The number of stages that one line names; further stages are counted. */
const MOST_NAMED = 20;

export function renderReuse(origin: RunOrigin, { given, again, firstDisks }: Reuse, style: Style): readonly string[] {
  const named = [...given.keys()].map(sanitizeLine);
  const own = [...again].filter(([, because]) => because.kind !== 'after');
  const behind = [...again].filter(([, because]) => because.kind === 'after').map(([stage]) => sanitizeLine(stage));
  return [
    `${sanitizeLine(describeOrigin(origin))}:`,
    `  taken over: ${named.length === 0 ? 'nothing' : formatList(named)}`,
    ...[...firstDisks.values()].map(
      ({ checkpoint: { after } }) => `  a VM starts from the checkpoint after ${sanitizeLine(after)}`,
    ),
    ...own
      .slice(0, MOST_NAMED)
      .map(
        ([stage, because]) => `  runs again: ${style.bold(sanitizeLine(stage))}, ${sanitizeLine(becauseOf(because))}`,
      ),
    ...(own.length > MOST_NAMED ? [`  runs again: ${own.length - MOST_NAMED} more`] : []),
    ...(behind.length === 0 ? [] : [`  and after them: ${formatList(behind)}`]),
  ];
}

function formatList(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMED).join(', ');
  return names.length > MOST_NAMED ? `${shown} and ${names.length - MOST_NAMED} more` : shown;
}

function becauseOf(because: AgainBecause): string {
  switch (because.kind) {
    case 'from':
      return 'which you named';
    case 'new':
      return 'which the earlier run does not have';
    case 'differs':
      return `which differs in ${because.keys.join(', ')}`;
    case 'ended':
      return because.state === null || because.state === 'skipped'
        ? 'which did not run'
        : `which ${WORDS[because.state]}`;
    case 'after':
      return `which waits for ${because.stage}`;
    case 'finally':
      return 'which has `finally`';
    case 'shares-vm':
      return `which shares its VM with ${because.stage}: its files in the VM must be created again${because.unsaved === undefined ? '' : ` (${because.unsaved})`}`;
    case 'not-saved':
      return `whose files are not in the checkpoint after ${because.stage}`;
    case 'same-loop':
      return `which is in a loop with ${because.stage}: a loop runs as a whole`;
  }
}

const WORDS = {
  failed: 'failed',
  cancelled: 'was cancelled',
  succeeded: 'succeeded',
  passed: 'was passed over',
} as const;
