/** The entry point of native pieces: the keeper's client. It loads no binary into this process. */
export { MicroVm, type MicroVmLaunch } from './micro-vm.ts';
export { endVm } from './end-vm.ts';
export { keepVmAlive } from './keepalive.ts';
export { askVmStatus } from './vm-status.ts';
export { ConnectionError } from './connection.ts';
export {
  isAlive,
  readHostFacts,
  readRunDir,
  sealRunDir,
  sweepRunDirs,
  type HostFacts,
  type RunDirStatus,
  type SweptVm,
} from './keeper-command.ts';
export {
  listRunDirs,
  readEntry,
  readIntent,
  readNotices,
  readRetention,
  readVmKey,
  type VmEntry,
  vmRunDir,
  writeEntry,
} from './run-dirs.ts';
export { readDiskOfVm } from './disk-patience.ts';
export type {
  ExecEnd,
  ExecStart,
  FullDisk,
  LaunchConfig,
  SnapshotFolder,
  OutputStream,
  SignalName,
  VmStart,
  VmState,
  VmStatus,
  VmUsage,
} from './api.ts';
export { isVmGone, OPEN_STDIN_BYTES } from './api.ts';
