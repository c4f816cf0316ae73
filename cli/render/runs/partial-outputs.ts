import { PARTIAL_OUTPUTS } from '../../../domain/plan/workspace.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import { formatBytes } from '../../../domain/units/bytes.ts';
import type { RunView } from '../../../store/run-view.ts';
import { quoteStageName, renderCommand } from '../../../app/runs/run-id.ts';
import type { Advise } from './run-end.ts';
import type { Style } from '../text/style.ts';

/** Renders the outputs of unsuccessful attempts, with the commands that take them. */
export function renderPartial(view: RunView, { style, advise }: { style: Style; advise: Advise }): string[] {
  const left = view.stages.flatMap(({ id, partial }) => (partial === undefined ? [] : [{ id, partial }]));
  if (left.length === 0) return [];
  return [
    '',
    ...left.map(({ id, partial }) => {
      const names = Object.entries(partial)
        .filter(([name]) => name !== PARTIAL_OUTPUTS.base)
        .map(([name, { sizeBytes }]) => `${sanitizeLine(`${id}.${name}`)} (${formatBytes(sizeBytes)})`);
      const command = Object.hasOwn(partial, PARTIAL_OUTPUTS.patch)
        ? renderCommand('apply', view.runId, {
            options: `--partial${left.length === 1 ? '' : ` --stage ${quoteStageName(id)}`}`,
          })
        : renderCommand('artifacts', view.runId);
      return `partial: ${names.join(', ')} ${style.dim(advise(`(${command})`))}`;
    }),
  ];
}
