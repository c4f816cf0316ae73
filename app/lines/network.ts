/**
 * Renders what the proxies of VMs did: a line for each event, a line for a run, and the refused connections of a failed
 * stage.
 */
import { formatTarget } from '../../domain/run/door-notice.ts';
import type { RunEventBody } from '../../domain/run/event.ts';
import { parseVmKey } from '../../domain/run/vm-key.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { explainClosedRule, parseRule } from '../../domain/language/read/egress-rules.ts';
import { formatBytes } from '../../domain/units/bytes.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';
import { type NetworkTotals, sumNetwork, type RefusalView } from '../../store/network-view.ts';
import type { RunView, StageView, VmView } from '../../store/run-view.ts';
import { renderCommand } from '../runs/run-id.ts';
import type { LineStyle } from './line-style.ts';

type NetworkBody = Extract<RunEventBody, { type: 'network' }>;

const KINDS: Readonly<Record<string, string>> = { refused: 'refusals', closed: 'ends of connections' };

/** Null for an event kind of a later build. */
export function renderNetworkLine(body: NetworkBody, style: LineStyle): string | null {
  const vm = `vm ${sanitizeLine(nameOfVm(body))}:`;
  switch (body.kind) {
    case 'refused':
      return style.yellow(`${vm} ${sanitizeLine(formatTarget(body))} refused: ${sanitizeLine(body.reason)}`);
    case 'closed': {
      const bytes = `${formatBytes(body.sentBytes)} sent, ${formatBytes(body.receivedBytes)} received`;
      const end = body.end === 'clean' ? '' : ` (${sanitizeLine(endText(body.end))})`;
      return `${vm} ${sanitizeLine(formatTarget(body))} closed after ${formatDurationMs(body.durationMs)}, ${bytes}${end}`;
    }
    case 'more': {
      const bytes = `${formatBytes(body.sentBytes)} sent, ${formatBytes(body.receivedBytes)} received`;
      return style.dim(
        `${vm} besides, so far: ${countText(body.refused, 'refusal')}, ${countText(body.closed, 'connection')}, ${bytes}`,
      );
    }
    case 'dropped':
      return style.yellow(`${vm} further ${sanitizeLine(KINDS[body.of] ?? body.of)} are not kept: there are too many`);
    case 'unwritten':
      return style.yellow(`${vm} ${countText(body.count, 'notice')} lost: the disk was full`);
    // A later build wrote this event.
    default:
      return null;
  }
}

/** Returns the name of a VM; the VM of an item includes the item. */
function nameOfVm({ vmKey, scope }: NetworkBody): string {
  const instance = parseVmKey(vmKey)?.instance ?? [];
  return instance.length === 0
    ? scope
    : `${scope} of ${instance.map(({ part, item }) => `${part}[${item}]`).join('.')}`;
}

function endText(end: string): string {
  if (end === 'limit') return 'the VM reached its limit of bytes';
  return end === 'idle' ? 'no data for too long' : end;
}

function countText(count: number, what: string): string {
  return `${count.toLocaleString('en-US')} ${what}${count === 1 ? '' : 's'}`;
}

export function networkOfRun(view: Pick<RunView, 'vms'>): NetworkTotals | null {
  return sumNetwork(view.vms.map(({ network }) => network));
}

/** `12 connections (1.2 MB sent, 40 MB received), 3 refused`. */
export function renderNetwork({ connections, refused, sentBytes, receivedBytes, isIncomplete }: NetworkTotals): string {
  const bytes = `${formatBytes(sentBytes)} sent, ${formatBytes(receivedBytes)} received`;
  const rest = isIncomplete ? '; there were more than are kept' : '';
  return `${countText(connections, 'connection')} (${bytes}), ${refused.toLocaleString('en-US')} refused${rest}`;
}

/** The most targets in a line. A guest can make each as long as it likes. */
const SHOWN_TARGETS = 3;

/** Below a stage that failed: what its VM was refused while it ran. */
export function renderRefusals(
  view: RunView,
  stage: StageView,
  { style, advise }: { readonly style: LineStyle; readonly advise: (text: string) => string },
): string[] {
  const totals = sumNetwork(view.vms.filter((vm) => isVmOf(stage, vm)).map(({ network }) => network));
  if (totals === null || totals.refused === 0) return [];
  const during = totals.refusals.filter((refusal) => isDuring(stage, refusal));
  if (during.length === 0) return [];
  const shown = during.slice(0, SHOWN_TARGETS);
  const targets = shown.map(({ target, count }) => `${short(target)}${count > 1 ? ` (${count})` : ''}`).join(', ');
  const count = during.reduce((sum, refusal) => sum + refusal.count, 0);
  const closed = shown.filter(needsService).map(({ target }) => short(target));
  const missing = shown.filter((refusal) => refusal.cause === 'rules' && !needsService(refusal));
  const allow = [
    ...(missing.length === 0
      ? []
      : [
          `to allow ${missing.length === 1 ? 'it' : 'them'}, add ${missing.map(({ target }) => short(target)).join(', ')} to \`sandbox.egress.allow\`; `,
        ]),
    ...(closed.length === 0
      ? []
      : [
          `no rule can allow ${closed.join(', ')}: add \`NAME: "${closed[0]}"\` to \`sandbox.services\` and use that name; `,
        ]),
  ].join('');
  return [
    style.yellow(`  ${countText(count, 'connection')} refused: ${targets}${during.length > shown.length ? ', …' : ''}`),
    `  ${style.cyan('help:')} ${advise(`${allow}all of them: ${renderCommand('logs', view.runId, { options: '--network' })}`)}`,
  ];
}

/** True if only a service reaches the target: by its number or name, or because the keeper found such an address. */
function needsService({ target, cause, reason }: RefusalView): boolean {
  if (cause !== 'rules' && cause !== 'closed') return false;
  if (cause === 'closed' && reason.includes('only `services`')) return true;
  const rule = parseRule(target, 'any');
  return typeof rule !== 'string' && explainClosedRule(rule) !== null;
}

const SHORT_CHARACTERS = 80;

function short(target: string): string {
  const clean = sanitizeLine(target);
  return clean.length > SHORT_CHARACTERS ? `${clean.slice(0, SHORT_CHARACTERS - 1)}…` : clean;
}

function isVmOf(stage: StageView, { vmKey }: VmView): boolean {
  if (stage.items === null) return stage.vmKey === vmKey;
  return parseVmKey(vmKey)?.instance[0]?.part === stage.id;
}

/** Other stages may have been in the VM before and after. */
function isDuring({ startedAtMs, durationMs }: StageView, { firstAtMs, lastAtMs }: RefusalView): boolean {
  if (startedAtMs === null) return true;
  const endedAtMs = durationMs === null ? Number.POSITIVE_INFINITY : startedAtMs + durationMs;
  return lastAtMs >= startedAtMs && firstAtMs <= endedAtMs;
}
