/* The module `engine.wire.native._native`, and the function that writes producer fields. */
#include "native.h"

/* Raised whenever a function takes or returns something else; engine/wire/native/__init__.py expects the same number. */
enum { INTERFACE = 2 };

int check_count(const char *name, Py_ssize_t count, Py_ssize_t wanted) {
    if (count == wanted)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, count);
    return -1;
}

int read_numbers(PyObject *const *args, Py_ssize_t from, Py_ssize_t wanted, int64_t *numbers) {
    for (Py_ssize_t index = 0; index < wanted; index++) {
        numbers[index] = PyLong_AsLongLong(args[from + index]);
        if (numbers[index] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* restamp(buffer, at, attributes, producer id, producer epoch, base sequence)
 *
 * Only the header is read: its CRC was right for the old bytes and is corrected by what the new bytes change. */
PyObject *native_restamp(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    int64_t n[5];
    Py_buffer view;
    if (check_count("restamp", count, 6) < 0 || read_numbers(args, 1, 5, n) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_WRITABLE) < 0)
        return NULL;
    int64_t length = -1;
    if (n[0] >= 0 && n[0] <= view.len && view.len - n[0] >= HEADER_BYTES)
        length = read_i32((const uint8_t *)view.buf + n[0] + LENGTH_AT);
    if (length < HEADER_BYTES - LOG_OVERHEAD_BYTES || length > view.len - n[0] - LOG_OVERHEAD_BYTES) {
        PyErr_Format(PyExc_ValueError, "restamp: no batch at %lld of %zd bytes", (long long)n[0], view.len);
        PyBuffer_Release(&view);
        return NULL;
    }
    uint8_t *batch = (uint8_t *)view.buf + n[0];
    const size_t changed = COUNT_AT - ATTRIBUTES_AT;
    uint32_t before = crc32c(batch + ATTRIBUTES_AT, changed);
    write_u64(batch + BASE_OFFSET_AT, 0);
    write_u32(batch + EPOCH_AT, UINT32_MAX);
    write_u16(batch + ATTRIBUTES_AT, (uint16_t)n[1]);
    write_u64(batch + PRODUCER_ID_AT, (uint64_t)n[2]);
    write_u16(batch + PRODUCER_EPOCH_AT, (uint16_t)n[3]);
    write_u32(batch + BASE_SEQUENCE_AT, (uint32_t)n[4]);
    uint32_t change = before ^ crc32c(batch + ATTRIBUTES_AT, changed);
    size_t after = (size_t)(length + LOG_OVERHEAD_BYTES) - COUNT_AT;
    write_u32(batch + CRC_AT, read_u32(batch + CRC_AT) ^ crc32c_behind(change, after));
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

/* crc32c(buffer, by_table) */
static PyObject *native_crc32c(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    (void)self;
    int64_t by_table;
    Py_buffer view;
    if (check_count("crc32c", count, 2) < 0 || read_numbers(args, 1, 1, &by_table) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0)
        return NULL;
    uint32_t found = (by_table ? crc32c_by_table : crc32c)(view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return PyLong_FromUnsignedLong(found);
}

static PyMethodDef methods[] = {
    {"survey", (PyCFunction)(void (*)(void))native_survey, METH_FASTCALL, NULL},
    {"merge", (PyCFunction)(void (*)(void))native_merge, METH_FASTCALL, NULL},
    {"merge_areas", (PyCFunction)(void (*)(void))native_merge_areas, METH_FASTCALL, NULL},
    {"write_areas", (PyCFunction)(void (*)(void))native_write_areas, METH_FASTCALL, NULL},
    {"restamp", (PyCFunction)(void (*)(void))native_restamp, METH_FASTCALL, NULL},
    {"crc32c", (PyCFunction)(void (*)(void))native_crc32c, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject *module) {
    crc32c_start();
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "HAS_CRC_INSTRUCTION", crc32c_in_hardware());
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The way of a batch, compiled.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
