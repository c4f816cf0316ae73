/**
 * The disk of the state folder gets full while events arrive: senders learn of it, and no accepted event, file, row and
 * message is lost.
 */
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { SmallDisk } from '../rig/vms/small-disk.ts';
import { randomOf } from '../storm/random.ts';
import { awaitAnswer, readText } from '../storm/service/client.ts';
import { listOwn, type SentEvent } from '../storm/triggers/findings.ts';
import { NO_QUEUE, openOutside, startApplications } from '../storm/triggers/outside.ts';
import { awaitOutcomes, findFaults } from '../storm/triggers/round.ts';
import { sendHook, sendSequence } from '../storm/triggers/sender.ts';
import type { TriggerName } from '../storm/triggers/spec.ts';
import { openLane } from '../storm/triggers/storm.ts';
import { Rig } from './rig.ts';

const DISK_MIB = 300;
const LIMIT_MS = 150_000;
const FULL_MS = 3_000;

/** Sources that the service reads itself. */
const READ: readonly TriggerName[] = ['files', 'rows', ...(NO_QUEUE === null ? (['messages'] as const) : [])];

test('on a full disk a sender gets 503 or 507, and each accepted or waiting event has one run once there is room', async () => {
  await using rig = new Rig();
  using disk = new SmallDisk(rig.stateDir, DISK_MIB);
  await using applications = await startApplications();
  await using outside = await openOutside(rig, applications);
  const lane = await openLane(rig, outside);
  const { service } = lane;
  const endAtMs = Date.now() + LIMIT_MS;
  const send = async (key: string, trigger: TriggerName = 'ordered') =>
    await sendSequence({ trigger, key, events: 4 }, { service, outside, endAtMs, random: randomOf(1) });
  const before = await send('before');
  disk.fill();
  const refusals: number[] = [];
  const unknown: SentEvent[] = [];
  const filling = 'x'.repeat(500_000);
  for (let n = 0; refusals.length === 0 && Date.now() < endAtMs; n += 1) {
    const name = `full-${n}`;
    const body = JSON.stringify({ key: name, filling });
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    unknown.push({ name, trigger: 'ordered', bodySha256, orderKey: null, answered: [] });
    const answer = await awaitAnswer(sendHook(service, 'ordered', name, body)).catch(() => null);
    if (answer === null) continue;
    const text = await readText(answer).catch(() => '');
    if (answer.statusCode !== 202) refusals.push(answer.statusCode!);
    expect([202, 503, 507], text).toContain(answer.statusCode);
  }
  expect(refusals).toHaveLength(1);
  const sending = send('during');
  const read = await Promise.all(READ.map(async (trigger) => await send('during', trigger)));
  await sleep(FULL_MS);
  disk.makeRoom();
  const sent = [...before, ...read.flat(), ...(await sending), ...(await send('after'))];
  const settled = await awaitOutcomes(lane, sent, endAtMs);
  const accepted = unknown.filter((event) => listOwn(event, settled.rows).length > 0);
  expect(await findFaults(lane, [...sent, ...accepted], settled, lane.earlier.firedUntilMs)).toEqual([]);
  expect(await outside.listLeft()).toEqual([]);
  await rig.assertNothingLeft();
}, 240_000);
