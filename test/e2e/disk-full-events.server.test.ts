/** The disk of the state folder gets full while events arrive: senders learn of it, and no accepted event is lost. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { SmallDisk } from '../rig/vms/small-disk.ts';
import { randomOf } from '../storm/random.ts';
import { awaitAnswer, readText } from '../storm/service/client.ts';
import { startService } from '../storm/service/storm.ts';
import { findDeliveryFaults, findRunFaults } from '../storm/triggers/findings.ts';
import { awaitOutcomes, listRuns, readRuns } from '../storm/triggers/round.ts';
import { sendHook, sendSequence } from '../storm/triggers/sender.ts';
import { deploy } from '../storm/triggers/storm.ts';
import { Rig } from './rig.ts';

const DISK_MIB = 300;
const LIMIT_MS = 150_000;
const FULL_MS = 3_000;

test('on a full disk a sender gets 503 or 507, and each accepted event has one run once there is room', async () => {
  await using rig = new Rig();
  using disk = new SmallDisk(rig.stateDir, DISK_MIB);
  const service = await startService(rig);
  await deploy(rig);
  const known = listRuns(rig);
  const endAtMs = Date.now() + LIMIT_MS;
  const send = async (key: string) =>
    await sendSequence({ trigger: 'ordered', key, events: 4 }, { service, endAtMs, random: randomOf(1) });
  const before = await send('before');
  disk.fill();
  const refusals: number[] = [];
  const filling = 'x'.repeat(500_000);
  for (let n = 0; refusals.length === 0 && Date.now() < endAtMs; n += 1) {
    const body = JSON.stringify({ key: `full-${n}`, filling });
    const answer = await awaitAnswer(sendHook(service, 'ordered', `full-${n}`, body)).catch(() => null);
    if (answer === null) continue;
    const text = await readText(answer).catch(() => '');
    if (answer.statusCode !== 202) refusals.push(answer.statusCode!);
    expect([202, 503, 507], text).toContain(answer.statusCode);
  }
  expect(refusals).toHaveLength(1);
  const sending = send('during');
  await sleep(FULL_MS);
  disk.makeRoom();
  const events = [...before, ...(await sending), ...(await send('after'))];
  const rows = await awaitOutcomes(rig, service, { earlier: new Set(), endAtMs });
  const runs = await readRuns(rig, known);
  expect(findDeliveryFaults(events, rows)).toEqual([]);
  expect(findRunFaults(events, rows, runs)).toEqual([]);
  await rig.assertNothingLeft();
}, 240_000);
