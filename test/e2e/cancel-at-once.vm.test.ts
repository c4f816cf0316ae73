/** How soon a cancel takes effect. No other file runs beside it (`ALONE` in vitest.config.ts). */
import { expect, test } from 'vitest';
import { sleeping } from './specs.ts';
import { until } from './rig.ts';
import { useRig } from './shared-rig.ts';

const theRig = useRig();

test('cancel while running: the guest process is dead within 3 s', async () => {
  const rig = theRig();
  await rig.launch(rig.spec('spec.yaml', sleeping(600)), 'cancelled');
  await rig.waitOutput('cancelled', 'sleep', 'begun');
  const keeper = rig.keepers()[0]!;
  const asked = Date.now();
  const cancelled = rig.cli('cancel', 'cancelled');
  await until(
    'the guest process to be dead',
    3_000,
    () => rig.keepers().length === 0 || rig.execRecords(keeper).some((record) => record['state'] === 'ended'),
    20,
  );
  expect(Date.now() - asked).toBeLessThan(3_000);
  expect((await cancelled).code).toBe(0);
  expect((await rig.finish('cancelled', 20_000)).outcome.state).toBe('cancelled');
  expect(await rig.output('cancelled', 'sleep')).toBe('begun\n');
});
