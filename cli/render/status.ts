import { formatBytes } from '../../domain/units/bytes.ts';
import { formatAge, formatDurationMs } from '../../domain/units/duration.ts';
import type { RunView } from '../../store/projection.ts';
import { paintOutcome } from './event-lines.ts';
import { type Advise, renderFailures, renderNextSteps } from './run-end.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { typedRunId } from '../run-id.ts';
import { renderStages } from './stages.ts';
import type { Style } from './style.ts';
import { padEnd } from './width.ts';

/** `voidbox status`: facts about the run, its stages, its VMs, what is to be known, and how it failed. */
export function renderStatus(
  view: RunView,
  options: { readonly style: Style; readonly width: number; readonly nowMs: number; readonly advise: Advise },
): string[] {
  const { style, nowMs, advise } = options;
  const facts: [string, string][] = [
    ['run', sanitizeLine(view.runId)],
    ['spec', `${sanitizeLine(view.name)} (${sanitizeLine(view.kind)})`],
    ['state', paintOutcome(view.state, style)],
    ['host', sanitizeLine(view.hostId)],
  ];
  if (view.startedAtMs !== null)
    facts.push(['started', `${new Date(view.startedAtMs).toISOString()} (${formatAge(nowMs - view.startedAtMs)})`]);
  const until = view.finishedAtMs ?? (view.damage === null ? nowMs : null);
  if (view.startedAtMs !== null && until !== null) facts.push(['took', formatDurationMs(until - view.startedAtMs)]);
  const output = view.outcome?.output ?? null;
  if (output !== null)
    facts.push([
      'result',
      `${formatBytes(output.sizeBytes)} ${style.dim(advise(`(voidbox result ${typedRunId(view.runId)})`))}`,
    ]);
  const damage = view.damage === null ? [] : renderDamage(view, view.damage, style, advise);
  const lines = [
    ...damage,
    ...facts.map(([name, value]) => `${style.dim(padEnd(name, 8))} ${value}`),
    '',
    ...renderStages(view, options),
  ];
  lines.push(...renderVms(view, style));
  for (const notice of view.notices)
    lines.push(
      notice.level === 'warning'
        ? style.yellow(`warning: ${sanitizeLine(notice.message)}`)
        : style.dim(sanitizeLine(notice.message)),
    );
  return view.state === 'failed'
    ? [...lines, ...renderFailures(view, { style, advise }), ...renderNextSteps(view, { style, advise }, ['logs'])]
    : lines;
}

/** First of all: what follows is only what could be read. */
function renderDamage(view: RunView, damage: string, style: Style, advise: Advise): string[] {
  return [
    style.red(sanitizeLine(damage)),
    `${style.cyan('help:')} ${advise(`restore that file from a copy, or put the run out of the way: voidbox set-aside ${typedRunId(view.runId)}`)}`,
    'What could be read of it:',
    '',
  ];
}

function renderVms(view: RunView, style: Style): string[] {
  const seen = view.vms.filter((vm) => vm.isolation !== null);
  if (seen.length === 0) return [];
  const lines = seen.map((vm) => {
    const generation = vm.generation > 0 ? ` (generation ${vm.generation})` : '';
    const facts = [vm.isolation, vm.accelerator, vm.kernel, `jail ${vm.jail ?? '-'}`]
      .map((fact) => sanitizeLine(fact ?? '-'))
      .join(', ');
    const boot = vm.bootMs === null ? '' : `, booted in ${formatDurationMs(vm.bootMs)}`;
    return style.dim(
      `vm ${sanitizeLine(vm.scope)}${generation}: ${vm.state}, ${facts}${boot}${vm.reason === null ? '' : `: ${sanitizeLine(vm.reason)}`}`,
    );
  });
  return ['', ...lines];
}
