import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describeSessionStores } from '../../test/conformance/store/sessions.ts';
import { openSessionPruner, openSessionStores } from '../open-session-stores.ts';

describeSessionStores({
  name: 'file',
  async place() {
    const location = await mkdtemp(join(tmpdir(), 'voidbox-session-stores-'));
    return { location, dispose: () => rm(location, { recursive: true, force: true }) };
  },
  open: async (stateDir, serverId) => ({
    ...openSessionStores({ stateDir }, serverId),
    pruner: openSessionPruner({ stateDir }),
  }),
});
