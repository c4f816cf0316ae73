import { describe, expect, test } from 'vitest';
import type { DoorNotice } from '../../../domain/run/door-notice.ts';
import type { RunEvent, RunEventBody } from '../../../domain/run/event.ts';
import { emptyView, type RunView } from '../../../store/run-view.ts';
import { project } from '../../../store/projection.ts';
import { createEventPrinter } from '../../../app/lines/event-lines.ts';
import { renderNetworkLine } from '../../../app/lines/network.ts';
import { renderFailures, renderRunEnd } from './run-end.ts';
import { toRunJson } from '../../../app/json/run-json.ts';
import { renderStatus } from './status.ts';
import { PLAIN } from '../text/style.ts';

type NetworkBody = Extract<RunEventBody, { type: 'network' }>;

const VM_KEY = 'r/main/0';
const TELLING = { style: PLAIN, advise: (text: string) => text, folder: '/f', nowMs: 0, width: 100 };

const network = (notice: DoorNotice, vmKey = VM_KEY): NetworkBody => ({
  type: 'network',
  vmKey,
  scope: 'main',
  generation: 0,
  offset: 0,
  ...notice,
});
const refused = (host: string, cause = 'rules', port = 443): NetworkBody =>
  network({ kind: 'refused', host, port, cause, reason: `nothing has ${host}` });
const closed = (sentBytes: number, end = 'clean'): NetworkBody =>
  network({ kind: 'closed', service: 'db', end, sentBytes, receivedBytes: 4096, durationMs: 1_200 });
const more = (refusals: number, ends: number): NetworkBody =>
  network({ kind: 'more', refused: refusals, closed: ends, sentBytes: 1, receivedBytes: 2 });

const STARTED: RunEventBody = { type: 'stage-started', stage: 'a', execKey: 'a/0/1', attempt: 1, vmKey: VM_KEY };
const FAILED: RunEventBody = {
  type: 'stage-failed',
  stage: 'a',
  execKey: 'a/0/1',
  failure: { code: 'stage/exit-nonzero', message: 'ended with exit code 1', stderrTail: '' },
};

function events(bodies: readonly RunEventBody[]): RunEvent[] {
  return bodies.map((body, index) => ({ seq: index + 1, id: `e${index}`, atMs: 1_000 + index, body }));
}

function view(...bodies: readonly RunEventBody[]): RunView {
  return events(bodies).reduce(project, emptyView('r'));
}

test('each notice is a line', () => {
  expect(
    [
      refused('a.example'),
      closed(10),
      closed(10, 'idle'),
      more(1, 2),
      network({ kind: 'dropped', of: 'refused' }),
      network({ kind: 'unwritten', count: 1 }),
    ].map((body) => renderNetworkLine(body, PLAIN)),
  ).toEqual([
    'vm main: a.example:443 refused: nothing has a.example',
    'vm main: service db closed after 1.2 s, 10 B sent, 4.0 KiB received',
    'vm main: service db closed after 1.2 s, 10 B sent, 4.0 KiB received (no data for too long)',
    'vm main: besides, so far: 1 refusal, 2 connections, 1 B sent, 2 B received',
    'vm main: further refusals are not kept: there are too many',
    'vm main: 1 notice lost: the disk was full',
  ]);
  const ofItem = { ...refused('a.example'), vmKey: 'r/main/each~3/0' };
  expect(renderNetworkLine(ofItem, PLAIN)).toMatch(/^vm main( of .+)?: a\.example:443 refused/);
});

test('names of a guest are printed sanitized', () => {
  const body = refused('\u001b[2J\u202eevil');
  const shown = [
    renderNetworkLine(body, PLAIN),
    ...renderStatus(view(STARTED, body, FAILED), TELLING),
    ...renderFailures(view(STARTED, body, FAILED), TELLING),
  ].join('\n');
  expect(shown).toContain('evil');
  for (const sign of ['\u001b', '\u202e']) expect(shown).not.toContain(sign);
});

describe('a run’s view', () => {
  test('the count adds reported refusals and counted ones; a later count replaces the earlier one', () => {
    const run = view(
      STARTED,
      refused('a'),
      refused('a'),
      refused('b', 'closed'),
      closed(10),
      more(5, 1),
      more(7, 2),
      more(6, 2),
    );
    expect(toRunJson(run).network).toEqual({
      connections: 3,
      refused: 10,
      sentBytes: 11,
      receivedBytes: 4_098,
      refusals: [
        { target: 'a:443', cause: 'rules', reason: 'nothing has a', count: 2 },
        { target: 'b:443', cause: 'closed', reason: 'nothing has b', count: 1 },
      ],
      isIncomplete: false,
    });
    expect(renderStatus(run, TELLING)).toContain(
      'network  3 connections (11 B sent, 4.0 KiB received), 10 refused (voidbox logs r --network)',
    );
    expect(toRunJson(view(STARTED)).network).toBeNull();
    expect(toRunJson(view(network({ kind: 'dropped', of: 'closed' }))).network?.isIncomplete).toBe(true);
  });

  test('the list keeps only the first targets of a guest that asks for many', () => {
    const many = view(...Array.from({ length: 50 }, (_, index) => refused(`h${index}`)));
    expect(toRunJson(many).network).toMatchObject({ refused: 50 });
    expect(toRunJson(many).network?.refusals).toHaveLength(8);
  });
});

describe('below a stage that failed', () => {
  const hint = (run: RunView): string[] => renderRunEnd(run, TELLING).filter((line) => /refused:|--network/.test(line));

  test('the hint lists the refused connections, and what to allow if a rule is missing', () => {
    const run = view(STARTED, refused('a.example'), refused('a.example'), refused('x.example', 'closed', 80), FAILED);
    expect(hint(run)).toEqual([
      '  3 connections refused: a.example:443 (2), x.example:80',
      '  help: to allow it, add a.example:443 to `sandbox.egress.allow`; all of them: voidbox logs r --network',
    ]);
    expect(hint(view(STARTED, refused('x', 'closed'), FAILED))[1]).toBe(
      '  help: all of them: voidbox logs r --network',
    );
  });

  test('a refused address that no rule opens gets a hint that names services', () => {
    for (const host of ['127.0.0.1', 'localhost', 'db.localhost', '::1', '10.0.0.1'])
      for (const cause of ['rules', 'closed']) {
        const [, help] = hint(view(STARTED, refused(host, cause, 5432), FAILED));
        const target = host.includes(':') ? `[${host}]:5432` : `${host}:5432`;
        expect(help).toContain(`no rule can allow ${target}: add \`NAME: "${target}"\` to \`sandbox.services\``);
        expect(help).not.toContain('egress.allow');
      }
    const resolved = { ...refused('db.example', 'closed'), reason: '10.0.0.1 is private; only `services` reach those' };
    expect(hint(view(STARTED, resolved as NetworkBody, FAILED))[1]).toContain('sandbox.services');
  });

  test('no hint shows for another VM, for another stage’s time, or for a stage that succeeded', () => {
    const other = { ...refused('a.example'), vmKey: 'r/other/0' };
    expect(hint(view(STARTED, other, FAILED))).toEqual([]);
    expect(hint(view(refused('a.example'), STARTED, FAILED))).toEqual([]);
    expect(hint(view(STARTED, refused('a.example')))).toEqual([]);
  });

  test('long names are cut', () => {
    for (const line of hint(
      view(STARTED, ...Array.from({ length: 9 }, (_, n) => refused(`${n}${'x'.repeat(250)}`)), FAILED),
    ))
      expect(line.length).toBeLessThan(400);
  });
});

describe('a run’s log', () => {
  const lines = (bodies: readonly RunEventBody[], everyRefusal: boolean): readonly string[] => {
    const printer = createEventPrinter({
      style: PLAIN,
      prefix: true,
      states: () => true,
      stream: 'both',
      everyRefusal,
    });
    return events(bodies).flatMap((event) => printer.push(event));
  };

  test('shows each refused target once, only the first few of a VM, and all of them on request', () => {
    const bodies = [refused('a'), refused('a'), closed(1), ...['b', 'c', 'd', 'e', 'f'].map((host) => refused(host))];
    expect(lines(bodies, false).map((line) => line.replace(/^==> vm main: (\w):.*$/, '$1'))).toEqual([
      'a',
      'b',
      'c',
      'd',
    ]);
    expect(lines(bodies, true)).toHaveLength(bodies.length);
  });
});
