/** Opens the uploads, the files of deployments and the artifacts of deliveries of a state folder. No other file opens them. */
import { readDiskRoom } from './disk-room.ts';
import { createFileUploads } from './file/uploads.ts';
import { createVersionFolders } from './file/version-folders.ts';
import { createHeldArtifacts } from './file/held-artifacts.ts';
import type { HeldArtifacts } from './ports/held-artifacts.ts';
import { requireStateFormat } from './state-format.ts';
import { UPLOAD_LIMITS, type UploadStore, type VersionFolders } from './uploads.ts';

/**
 * One process opens them: it counts the bytes of uploads that are on their way.
 * @throws CodedError `host/state-format`
 */
export function openUploads({ stateDir }: { readonly stateDir: string }): UploadStore {
  requireStateFormat(stateDir);
  return createFileUploads({
    stateDir,
    limits: UPLOAD_LIMITS,
    now: () => Date.now(),
    readRoom: () => readDiskRoom(stateDir),
  });
}

/** @throws CodedError `host/state-format` */
export function openVersionFolders({ stateDir }: { readonly stateDir: string }): VersionFolders {
  requireStateFormat(stateDir);
  return createVersionFolders({ stateDir, readRoom: () => readDiskRoom(stateDir) });
}

/** @throws CodedError `host/state-format` */
export function openHeldArtifacts({ stateDir }: { readonly stateDir: string }): HeldArtifacts {
  requireStateFormat(stateDir);
  return createHeldArtifacts(stateDir);
}
