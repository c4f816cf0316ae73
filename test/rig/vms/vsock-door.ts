/** A program for guests of `voidbox-vmm`: it connects to the host's port, and becomes another program with it. */

/** The addresses of the guest agent's port: the host, and the port of the keeper. */
const HOST_CID = 2;
const PORT = 1024;
/** The descriptor on which the program finds the connection. */
export const DOOR_DESCRIPTOR = 3;

const BASE = 0x400000;
const FILE_HEADER_BYTES = 64;
const PROGRAM_HEADER_BYTES = 56;
const SYSCALL = Buffer.from([0x0f, 0x05]);

const u16 = (value: number): Buffer => Buffer.from([value & 0xff, value >> 8]);
function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}
const u64 = (value: number): Buffer => Buffer.concat([u32(value), u32(0)]);

/** The opcodes that put a number into a register. */
const INTO = { eax: 0xb8, edx: 0xba, esi: 0xbe, edi: 0xbf } as const;
const set = (register: keyof typeof INTO, value: number): Buffer =>
  Buffer.concat([Buffer.from([INTO[register]]), u32(value)]);

/**
 * Writes a static ELF program for x86-64 Linux: `socket`, `connect`, `dup2`, `execve`. Busybox has no client for vsock,
 * and a compiler for the guest is no piece of the tests. If the connection fails, the program's writes fail.
 */
export function writeVsockDoor(words: readonly string[]): Buffer {
  const code = (data: number, argv: number, address: number): Buffer =>
    Buffer.concat([
      Buffer.concat([set('edi', 40), set('esi', 1), set('edx', 0), set('eax', 41), SYSCALL]),
      // mov ebx, eax; mov edi, eax
      Buffer.from([0x89, 0xc3, 0x89, 0xc7]),
      Buffer.concat([set('esi', address), set('edx', 16), set('eax', 42), SYSCALL]),
      // mov edi, ebx
      Buffer.from([0x89, 0xdf]),
      Buffer.concat([set('esi', DOOR_DESCRIPTOR), set('eax', 33), SYSCALL]),
      Buffer.concat([set('edi', data), set('esi', argv), set('edx', 0), set('eax', 59), SYSCALL]),
    ]);
  const texts = words.map((word) => Buffer.from(`${word}\0`));
  const data = BASE + FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES + code(0, 0, 0).length;
  const starts = texts.map((_, index) => data + Buffer.concat(texts.slice(0, index)).length);
  const argv = data + Buffer.concat(texts).length;
  const address = argv + 8 * (words.length + 1);
  const body = Buffer.concat([
    code(data, argv, address),
    ...texts,
    ...starts.map(u64),
    u64(0),
    // struct sockaddr_vm
    Buffer.concat([u16(40), u16(0), u32(PORT), u32(HOST_CID), u32(0)]),
  ]);
  const entry = BASE + FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES;
  const sizeBytes = FILE_HEADER_BYTES + PROGRAM_HEADER_BYTES + body.length;
  return Buffer.concat([
    // The file's header: 64 bits, little-endian, a program for x86-64 with one program header.
    Buffer.from('\x7fELF\x02\x01\x01', 'latin1'),
    Buffer.alloc(9),
    Buffer.concat([u16(2), u16(62), u32(1), u64(entry), u64(FILE_HEADER_BYTES), u64(0), u32(0)]),
    Buffer.concat([u16(FILE_HEADER_BYTES), u16(PROGRAM_HEADER_BYTES), u16(1), u16(0), u16(0), u16(0)]),
    // The program header: the whole file, readable and executable.
    Buffer.concat([u32(1), u32(5), u64(0), u64(BASE), u64(BASE), u64(sizeBytes), u64(sizeBytes), u64(0x1000)]),
    body,
  ]);
}
