// hyparquet: row groups and bytes from the ranges that it asks for.
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { isDeepStrictEqual } from 'node:util'
import { pathToFileURL } from 'node:url'

const modules = process.argv[2] + '/node_modules/'
const require = createRequire(modules)
const load = name => import(pathToFileURL(require.resolve(name)))
const { parquetMetadataAsync, parquetQuery, parquetReadObjects } = await load('hyparquet')
const { compressors } = await load('hyparquet-compressors')

// A file that records the ranges that are read.
function open(path) {
  const byteLength = statSync(path).size
  const ranges = []
  function slice(start, end = byteLength) {
    ranges.push([start, end])
    const bytes = Buffer.alloc(end - start)
    const file = openSync(path)
    readSync(file, bytes, 0, end - start, start)
    closeSync(file)
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)
  }
  return { byteLength, slice, ranges }
}

function chunkRange(group, column) {
  const chunk = group.columns.find(({ meta_data }) => meta_data.path_in_schema.join('.') === column)
  const { dictionary_page_offset, data_page_offset, total_compressed_size } = chunk.meta_data
  const start = Number(dictionary_page_offset || data_page_offset)
  return [start, start + Number(total_compressed_size)]
}

function value({ kind, text }) {
  switch (kind) {
    case 'number': return Number(text)
    case 'bigint': return BigInt(text)
    case 'bytes': return Uint8Array.from(Buffer.from(text, 'hex'))
    case 'date': return new Date(text)
    default: return text
  }
}

// The forms in which a program may write a value that it has read.
function * forms(value) {
  yield ['eq', { $eq: value }]
  yield ['in', { $in: [value] }]
  yield ['range', { $gte: value, $lte: value }]
  const casts = { number: Number, bigint: BigInt, text: String, date: v => new Date(v), bytes: v => new TextEncoder().encode(v) }
  for (const [name, cast] of Object.entries(casts)) {
    let other
    try {
      other = cast(value)
    } catch {
      continue
    }
    yield [`${name} eq`, { $eq: other }]
    yield [`${name} in`, { $in: [other] }]
  }
}

const operations = {
  async compare({ old, new: changed, zero, column, values }) {
    const name = column.join('.')
    const result = { found: 0, asked: [], lost: {}, type: '' }
    for (const utf8 of [true, false]) {
      const rows = await parquetReadObjects({ file: open(old), columns: [column[0]], compressors, utf8 })
      const all = rows.map(row => column.reduce((found, part) => found?.[part], row))
      const present = all.filter(value => value !== undefined && value !== null).slice(0, Math.min(values, 4))
      result.type = present[0]?.constructor.name
      const count = async (path, filter) => {
        const options = { file: open(path), columns: [column[0]], filter, compressors, utf8, useBloomFilters: true }
        try {
          return (await parquetQuery(options)).length
        } catch (error) {
          return String(error)
        }
      }
      for (const value of present) {
        for (const [form, condition] of forms(value)) {
          const filter = { [name]: condition }
          const before = await count(old, filter)
          if (!(before > 0)) continue
          result.found += 1
          const after = await count(changed, filter)
          if (after !== before) result.lost[form] ??= `${form} ${String(value)}: ${before} rows, then ${after}`.slice(0, 200)
          if (!result.asked.includes(form) && await count(zero, filter) !== before) result.asked.push(form)
        }
      }
    }
    return result
  },
  version: () => JSON.parse(readFileSync(modules + 'hyparquet/package.json')),
  async equal({ old, new: changed }) {
    const [a, b] = await Promise.all([old, changed].map(path => parquetReadObjects({ file: open(path), compressors })))
    return { equal: isDeepStrictEqual(a, b), rows: a.length, columns: Object.keys(a[0] ?? {}).length }
  },
  async lookup({ path, column, literal }) {
    const file = open(path)
    const metadata = await parquetMetadataAsync(file)
    file.ranges.length = 0
    const name = column.join('.')
    const filter = { [name]: { $eq: value(literal) } }
    const utf8 = literal.kind !== 'bytes'
    const options = { file, metadata, columns: [column[0]], filter, compressors, utf8, useBloomFilters: true }
    const rows = (await parquetQuery(options)).length
    const groups = metadata.row_groups.map(group => chunkRange(group, name))
    const scanned = groups.filter(([start, end]) => file.ranges.some(([from, to]) => from < end && start < to))
    return { rows, total: groups.length, scanned: scanned.length }
  },
  async bytes_read({ path, column, literal }) {
    const file = open(path)
    const metadata = await parquetMetadataAsync(file)
    // The first read takes 512 KiB for the footer, whatever its length.
    file.ranges.length = 0
    const filter = { [column]: { $eq: value(literal) } }
    await parquetQuery({ file, metadata, filter, compressors, useBloomFilters: true })
    return { bytes: file.ranges.reduce((sum, [start, end]) => sum + end - start, 0) }
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const { op, ...request } = JSON.parse(line)
  let reply
  try {
    reply = await operations[op](request)
  } catch (error) {
    reply = { error: String(error), trace: error.stack }
  }
  process.stdout.write(JSON.stringify(reply) + '\n')
}
