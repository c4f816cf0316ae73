import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeRunRecords } from '../../test/conformance/store/run-records.ts';
import { describeRunInspector, describeRunPruner } from '../../test/conformance/store/upkeep.ts';
import type { StoresSubject } from '../../test/conformance/store/subject.ts';
import { openStores } from '../open-stores.ts';
import { recordsDir } from './run-folder.ts';

const subject: StoresSubject = {
  name: 'file',
  async place() {
    const location = await mkdtemp(join(tmpdir(), 'voidbox-stores-'));
    return { location, dispose: () => rm(location, { recursive: true, force: true }) };
  },
  open: (location) => openStores({ stateDir: location }),
  async damage(location, runId) {
    await mkdir(recordsDir(location, runId), { recursive: true });
    await writeFile(join(recordsDir(location, runId), 'plan.json'), '{');
  },
};

describeRunRecords(subject);
describeRunPruner(subject);
describeRunInspector(subject);
