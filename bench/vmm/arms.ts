/** The names of all arms of `npm run bench vmm`. */
export const ARMS = {
  floorBoot: 'floor',
  vmmBoot: 'vmm',
  qemuCold: 'qemu boots Debian',
  qemuSnapshot: 'qemu restores Debian',
  vmmDebian: 'vmm boots Debian',
  qemuOwn: 'qemu boots our kernel',
  qemuOwnSnapshot: 'qemu restores our kernel',
  vmmOwn: 'vmm boots our kernel',
  qemuExec: 'qemu, exec',
  vmmExec: 'vmm, exec',
  qemuFile: 'qemu, file',
  vmmFile: 'vmm, file',
  vmmResident: 'vmm and keeper',
  oneByOne: '8 VMs, one after the other',
  atOnce: '8 VMs at once',
} as const;
