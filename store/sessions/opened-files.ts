/** Data of the sessions that were opened on this host, one file for each session. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { OpenSession, OpenSessionStore } from '../../activities/ports/sessions.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { isPlain } from '../../domain/step-machine/deep-merge.ts';
import { writeJson } from '../file/json-file.ts';
import { DurableFolders } from '../file/layout.ts';
import { removeHalfFilesOf } from '../half-files.ts';
import { readLastObserved, forgetObserved } from './observed-files.ts';
import { sessionRecordsDir } from './record-files.ts';
import { markUse } from '../server-mark.ts';

const FILE = 'opened.json';

export function createOpenedFiles(stateDir: string, serverId: string): OpenSessionStore {
  const folders = new DurableFolders(stateDir);
  folders.keepFormat();
  return {
    read: (session) => Promise.resolve(readOpened(stateDir, session)),
    async write(record) {
      const dir = sessionRecordsDir(stateDir, record.session);
      // A new session may have the id of an ended one, and its observers have received no event.
      if (readLastObserved(dir) > 0 && readOpened(stateDir, record.session)?.firstRun !== record.firstRun)
        forgetObserved(dir);
      const file = join(dir, FILE);
      await writeJson(folders, file, record);
      removeHalfFilesOf(file);
      markUse(dir, serverId);
    },
  };
}

function readOpened(stateDir: string, session: string): OpenSession | null {
  const file = join(sessionRecordsDir(stateDir, session), FILE);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const record = parseSession(text);
  if (record?.session === session) return record;
  throw new CodedError(
    'session/foreign',
    `${file} is not what was written when session "${session}" was opened; end the session and start it again`,
  );
}

function parseSession(text: string): OpenSession | null {
  try {
    const value = JSON.parse(text) as unknown;
    if (!isPlain(value)) return null;
    const { session, firstRun, runs, codes, path, handshake, root } = value;
    const areTexts = [session, firstRun, root].every((one) => typeof one === 'string');
    const areLists = [runs, path].every((one) => Array.isArray(one) && one.every((item) => typeof item === 'string'));
    return areTexts && areLists && isPlain(handshake) && Array.isArray(codes) && codes.every(isPlain)
      ? (value as unknown as OpenSession)
      : null;
  } catch {
    return null;
  }
}
