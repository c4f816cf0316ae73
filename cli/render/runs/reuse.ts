/** Renders, before a run starts, which results of an earlier run it reuses, and why the other stages run. */
import type { AgainJson, OriginJson } from '../../../app/json/origin-json.ts';
import { describeOrigin } from '../../../domain/run/origin.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { Style } from '../text/style.ts';

/** The number of stages that one line names; further stages are counted. */
const MOST_NAMED = 20;

export function renderReuse({ origin, given, again, checkpoints }: OriginJson, style: Style): readonly string[] {
  const own = again.filter(({ because }) => because !== 'after');
  const behind = again.filter(({ because }) => because === 'after').map(({ stage }) => sanitizeLine(stage));
  return [
    `${sanitizeLine(describeOrigin(origin))}:`,
    `  taken over: ${given.length === 0 ? 'nothing' : formatList(given.map(sanitizeLine))}`,
    ...checkpoints.map(({ after }) => `  a VM starts from the checkpoint after ${sanitizeLine(after)}`),
    ...own
      .slice(0, MOST_NAMED)
      .map((each) => `  runs again: ${style.bold(sanitizeLine(each.stage))}, ${sanitizeLine(describeReason(each))}`),
    ...(own.length > MOST_NAMED ? [`  runs again: ${own.length - MOST_NAMED} more`] : []),
    ...(behind.length === 0 ? [] : [`  and after them: ${formatList(behind)}`]),
  ];
}

function formatList(names: readonly string[]): string {
  const shown = names.slice(0, MOST_NAMED).join(', ');
  return names.length > MOST_NAMED ? `${shown} and ${names.length - MOST_NAMED} more` : shown;
}

function describeReason({ because, of, keys, state, unsaved }: AgainJson): string {
  switch (because) {
    case 'from':
      return 'which you named';
    case 'new':
      return 'which the earlier run does not have';
    case 'differs':
      return `which differs in ${keys.join(', ')}`;
    case 'ended':
      return state === null || state === 'skipped' ? 'which did not run' : `which ${WORDS[state]}`;
    case 'after':
      return `which waits for ${of}`;
    case 'finally':
      return 'which has `finally`';
    case 'proven-answer':
      return 'whose answer must not come from a token that starts this run';
    case 'shares-vm':
      return `which shares its VM with ${of}: its files in the VM must be created again${unsaved === null ? '' : ` (${unsaved})`}`;
    case 'not-saved':
      return `whose files are not in the checkpoint after ${of}`;
    case 'same-loop':
      return `which is in a loop with ${of}: a loop runs as a whole`;
    default:
      // A service of a newer build may know more reasons.
      return String(because);
  }
}

const WORDS = {
  failed: 'failed',
  cancelled: 'was cancelled',
  succeeded: 'succeeded',
  passed: 'was passed over',
} as const;
