/** The boot of a real VM in the event history of its run, where the Temporal UI finds it. */
import { expect, test } from 'vitest';
import { connectRuns } from '../../client/temporal/connect.ts';
import { createEmbeddedAddress } from '../../client/temporal/temporal-address.ts';
import { formatDurationMs } from '../../domain/units/duration.ts';
import { Rig } from './rig.ts';

const SPEC = `api_version: v1
kind: pipeline
name: boots
sandbox: { memory_mb: 192 }
pipeline:
  boxes: [{ name: build, run: { program: 'true' } }]
  stages: [{ type: box, name: build }]
`;

test('the history of a run has a marker with the stage and the boot time of its VM, as the log of the run has it', async () => {
  await using rig = new Rig();
  const run = await rig.cli('run', rig.spec('spec.yaml', SPEC), '--run-id', 'boots');
  expect(run.code, run.stderr).toBe(0);
  const { bootMs } = await rig.eventOf('boots', 'vm-ready');
  expect(bootMs).toBeGreaterThan(0);
  const { address } = await rig.liveStack();
  const { client, close } = await connectRuns(createEmbeddedAddress(address));
  try {
    const { events } = await client.workflow.getHandle('boots').fetchHistory();
    const summaries = (events ?? []).flatMap(({ markerRecordedEventAttributes: marker, userMetadata }) =>
      marker ? [Buffer.from(userMetadata!.summary!.data!).toString()] : [],
    );
    expect(summaries).toEqual([JSON.stringify(`VM of build booted in ${formatDurationMs(bootMs)}`)]);
  } finally {
    await close();
  }
});
